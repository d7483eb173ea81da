"""The plan of a proxy follows from its seed, and lets clients with three retries through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.errors import ArgumentError
from coreason_client.testing import ConnectionPlan
from coreason_client.testing._chaos import ALL_FAULTS, ChaosPlan, FixedPlan


@given(st.integers(), st.sets(st.sampled_from(ALL_FAULTS)), st.integers(1, 300))
def test_a_plan_is_the_same_for_the_same_seed(seed: int, faults: set[str], number: int) -> None:
    plan = ChaosPlan(seed, faults).connection(number)
    assert plan == ChaosPlan(seed, faults).connection(number)
    assert plan.fault is None or plan.fault in faults
    assert 32 <= plan.after <= 4096 if plan.fault else plan.after == 0
    assert plan.pieces == 0 or "split" in faults
    assert plan.delay == 0 or "delay" in faults
    assert number % 3 or plan.fault is None, "every third connection stays whole"


def test_another_kind_of_fault_changes_nothing_else() -> None:
    every, cuts = ChaosPlan(7), ChaosPlan(7, ("cut",))
    afters = [(every.connection(n).after, cuts.connection(n).after) for n in range(1, 30)]
    assert all(one == other for one, other in afters)


@pytest.mark.proves("KIT-chaos-seed")
def test_a_seed_means_the_same_in_every_version() -> None:
    plan = ChaosPlan(1)
    assert [str(plan.connection(number)) for number in (1, 2, 3)] == [
        "stall after 1549 bytes, in pieces of 3 bytes, delayed by 0.049 s",
        "cut after 70 bytes, in pieces of 2 bytes",
        "whole, in pieces of 5 bytes, delayed by 0.022 s",
    ]


def test_a_seed_uses_every_kind_of_fault() -> None:
    plans = [ChaosPlan(3).connection(number) for number in range(1, 60)]
    assert {plan.fault for plan in plans} == {None, "cut", "reset", "stall"}
    assert any(plan.pieces for plan in plans)
    assert any(plan.delay for plan in plans)


def test_a_plan_by_hand_ends_with_whole_connections() -> None:
    plan = FixedPlan([ConnectionPlan("reset", 5)])
    assert [plan.connection(number).fault for number in (1, 2)] == ["reset", None]


def test_an_unknown_kind_of_fault_is_refused() -> None:
    with pytest.raises(ArgumentError, match="faults must be of cut, delay, reset, split, stall"):
        ChaosPlan(1, ("cut", "explode"))
