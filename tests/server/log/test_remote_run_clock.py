"""The clock of the Valkey log that counts only while the process runs."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.log.remote._clocks import RunClock

GAPS = st.lists(st.floats(0, 1e4), max_size=50)


def ticked(interval: float, gaps: Sequence[float]) -> RunClock:
    clock, at = RunClock(interval), 100.0
    clock.resume(at)
    for gap in gaps:
        at += gap
        clock.tick(at)
    return clock


@pytest.mark.parametrize(
    ("gaps", "now", "blocked"),
    [
        ([], 0.0, 0.0),
        ([1.0, 1.0, 1.0], 3.0, 0.0),
        ([1.0, 2.0], 3.0, 0.0),  # a little late is still all counted
        ([1.0, 30.0, 1.0], 4.0, 28.0),  # frozen for half a minute
        ([5.0, 5.0, 5.0], 6.0, 9.0),  # always short of CPU: slower, but it counts
        ([0.0, -3.0], 0.0, 0.0),
    ],
)
def test_only_time_in_which_the_process_ran_is_counted(
    gaps: list[float], now: float, blocked: float
) -> None:
    clock = ticked(1.0, gaps)
    assert (clock.now, clock.blocked) == (now, blocked)


@given(GAPS, st.floats(0.01, 10))
def test_a_tick_counts_two_intervals_at_most_and_the_rest_is_blocked(
    gaps: list[float], interval: float
) -> None:
    clock = ticked(interval, gaps)
    assert clock.now <= 2 * interval * len(gaps) + 1e-6
    assert math.isclose(clock.now + clock.blocked, sum(gaps), rel_tol=1e-6, abs_tol=1e-6)


@given(GAPS, st.floats(0.1, 10), st.floats(0.5, 50))
def test_a_silence_is_judged_neither_early_nor_never(
    gaps: list[float], interval: float, limit: float
) -> None:
    clock, at, passed = RunClock(interval), 0.0, False
    clock.resume(at)
    for number, gap in enumerate(gaps):
        before = at
        at += gap
        clock.tick(at)
        if clock.passed(0.0, limit):
            passed = True
            assert before >= limit - 1e-6  # at the tick before, so much had passed
        if all(gap >= interval for gap in gaps) and (number - 1) * interval >= limit + 1e-6:
            assert passed  # so many ticks are enough, however long they took


def test_what_arrived_before_a_late_tick_is_read_before_it_is_judged() -> None:
    clock = ticked(1.0, [1.0] * 9)
    since, limit = 0.0, 10.0
    clock.tick(1000.0)  # a long block: the reply is in the socket, and not read yet
    assert clock.now >= since + limit
    assert not clock.passed(since, limit)
    clock.tick(1001.0)
    assert clock.passed(since, limit)


def test_time_without_ticks_is_not_counted() -> None:
    clock = ticked(1.0, [1.0, 1.0])
    clock.resume(5000.0)
    clock.tick(5001.0)
    assert (clock.now, clock.blocked) == (3.0, 0.0)
