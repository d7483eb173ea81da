"""Sums of usages."""

from coreason_client.llm import Usage
from coreason_client.llm.tools._usage import NO_USAGE, added

ONE: Usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost_estimate": 0.5}


def test_nothing_added_changes_nothing() -> None:
    assert added(NO_USAGE, ONE) == added(ONE, NO_USAGE) == ONE


def test_all_counts_are_added() -> None:
    first: Usage = {**ONE, "cached_tokens": 4, "reasoning_tokens": 1, "estimated": True}
    second: Usage = {**ONE, "cached_tokens": 1, "cache_write_tokens": 7}
    assert added(first, second) == {
        "prompt_tokens": 2,
        "completion_tokens": 4,
        "total_tokens": 6,
        "cost_estimate": 1.0,
        "cached_tokens": 5,
        "cache_write_tokens": 7,
        "reasoning_tokens": 1,
        "estimated": True,
    }


def test_an_unknown_cost_stays_unknown() -> None:
    unknown: Usage = {**ONE, "cost_estimate": None}
    assert added(ONE, unknown)["cost_estimate"] is None
    assert added(unknown, ONE)["cost_estimate"] is None
