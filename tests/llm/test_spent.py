"""The usage of all attempts of a call; over the wire in `test_recovery.py`."""

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm import LLMClient, Usage
from coreason_client.llm._price_table import load_prices
from coreason_client.llm._spent import Spent, add_usages

MESSAGES = [{"role": "user", "content": "Hi"}]

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


def test_nothing_is_spent_besides_the_answer() -> None:
    usage = Usage(prompt_tokens=1, completion_tokens=2, total_tokens=3, cost_estimate=None)
    assert Spent().total(usage) is None


def test_a_cost_that_was_not_known_yet_is_set_later() -> None:
    client = LLMClient("a-key-for-tests")
    plan = client._attempts(MESSAGES, "gpt-4o", None, 0.5, 10, {}).plan
    spent, usage = (
        Spent(),
        Usage(prompt_tokens=1000, completion_tokens=10, total_tokens=1010, cost_estimate=None),
    )
    spent.add(plan, usage)
    load_prices().result(20)
    total = spent.total(None)
    assert total is not None
    assert total["cost_estimate"] is not None
    assert total["cost_estimate"] > 0
