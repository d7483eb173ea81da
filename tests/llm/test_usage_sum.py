"""Sums of usages."""

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm import Usage
from coreason_client.llm._answer import NO_USAGE, add_usages

ONE: Usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost_estimate": 0.5}


def test_nothing_added_changes_nothing() -> None:
    assert add_usages([NO_USAGE, ONE]) == add_usages([ONE, NO_USAGE]) == ONE


def test_all_counts_are_added() -> None:
    first: Usage = {**ONE, "cached_tokens": 4, "reasoning_tokens": 1, "estimated": True}
    second: Usage = {**ONE, "cached_tokens": 1, "cache_write_tokens": 7}
    assert add_usages([first, second]) == {
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
    assert add_usages([ONE, unknown])["cost_estimate"] is None
    assert add_usages([unknown, ONE])["cost_estimate"] is None


usages = st.builds(
    lambda prompt, completion, cost, cached: Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        cost_estimate=cost,
        **({"cached_tokens": cached} if cached else {}),  # type: ignore[typeddict-item]
    ),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.none() | st.integers(0, 100).map(float),
    st.integers(0, 5),
)


@given(st.lists(usages, min_size=1))
def test_the_sum(given_: list[Usage]) -> None:
    total = add_usages(given_)
    assert total["total_tokens"] == total["prompt_tokens"] + total["completion_tokens"]
    assert total["total_tokens"] == sum(usage["total_tokens"] for usage in given_)
    assert total.get("cached_tokens", 0) == sum(usage.get("cached_tokens", 0) for usage in given_)
    costs = [usage["cost_estimate"] for usage in given_]
    assert (total["cost_estimate"] is None) == (None in costs)
