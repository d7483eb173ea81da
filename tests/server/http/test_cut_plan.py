"""The plan of cuts: the same for a seed, and never so dense that an answer cannot end."""

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.http._cuts import CutPlan

SEEDS = st.integers(0, 2**53 - 1)


def numbers(seed: int, count: int = 40) -> list[int]:
    plan = CutPlan(seed)
    return [plan.next() for _ in range(count)]


@given(SEEDS)
def test_a_seed_gives_one_plan_that_lets_every_answer_end(seed: int) -> None:
    found = numbers(seed)
    assert found == numbers(seed)
    assert all(1 <= number <= 20 * 1.2**place for place, number in enumerate(found))
    assert sum(found) > 1.2**39


def test_seeds_differ() -> None:
    assert len({tuple(numbers(seed)) for seed in range(100)}) == 100
