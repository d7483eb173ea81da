"""The usage of all attempts of a call; over the wire in `test_recovery.py`."""

from coreason_client.llm import LLMClient, Usage
from coreason_client.llm._attempts import Spent
from coreason_client.llm._cost import load_prices

MESSAGES = [{"role": "user", "content": "Hi"}]


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
    spent.append((plan, usage))
    load_prices().result(20)
    total = spent.total(None)
    assert total is not None
    assert total["cost_estimate"] is not None
    assert total["cost_estimate"] > 0
