"""The clock of the store, as a process knows it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.log.remote._clocks import StoreClock

from .backends import Clock


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 20), st.floats(0, 1)), min_size=1),
)
def test_the_clock_of_the_store_is_known_within_a_round_trip(
    offset: float, trips: list[tuple[float, float, float]]
) -> None:
    local = Clock(0.0)
    clock, best = StoreClock(local), math.inf
    for pause, took, share in trips:
        local.forward(pause)
        sent = local.now
        local.forward(took)
        clock.add_measurement(sent, local.now, offset + sent + took * share)
        best = min(best, took)
        assert abs(clock() - (local.now + offset)) <= best + 1e-3  # the best so far, not the last


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1))
def test_a_jump_of_either_clock_is_forgotten_after_one_measurement(
    before: float, after: float, took: float
) -> None:
    local = Clock(0.0)
    clock = StoreClock(local)
    clock.add_measurement(0.0, 0.0, before)
    local.forward(took)
    clock.add_measurement(0.0, took, after + took)
    assert abs(clock() - (after + took)) <= took + 1e-3


def test_the_clock_of_the_store_has_to_be_measured_first() -> None:
    with pytest.raises(RuntimeError, match="has not been measured"):
        StoreClock()()
