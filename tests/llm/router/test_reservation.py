"""The amounts that are reserved and settled."""

import pytest

from coreason_client.llm import Budget
from coreason_client.llm._check_call import check_call
from coreason_client.llm._embed import EmbedPlan, check_embed
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._route import Target
from coreason_client.llm.router._reservation import (
    Bound,
    bound_of,
    estimate_input,
    price_of,
    reserve_amount,
    settled_amount,
)
from coreason_client.llm.types import Usage
from tests.llm.calls import WEATHER
from tests.llm.play import KEY

BOUND = Bound(1000, 500)


def tokens(content: object, **options: object) -> int:
    messages = [{"role": "user", "content": content}]
    return estimate_input(check_call(messages, "m", None, 0.7, 100, **options))  # type: ignore[arg-type]


def test_the_estimate_is_rather_too_high() -> None:
    english = "The quick brown fox jumps over the lazy dog. " * 20  # 10 tokens each
    assert 200 <= tokens(english) <= 400
    assert tokens("語" * 300) >= 300  # a token for each character


def test_tools_and_the_schema_count() -> None:
    call = check_call([{"role": "user", "content": "Hi"}], "m", [WEATHER], 0.7, 100)
    assert estimate_input(call) > tokens("Hi") + 20
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    assert tokens("Hi", response_format=schema) > tokens("Hi")


def test_an_image_counts_as_one_medium_whatever_its_size() -> None:
    url = "data:image/png;base64," + "A" * 3_000_000
    image = {"type": "image_url", "image_url": {"url": url}}
    assert 2000 < tokens([image, {"type": "text", "text": "What is it?"}]) < 2100


def test_the_bound_has_the_longest_answer() -> None:
    route = Target("http://a.test", KEY).route("m")
    call = check_call([{"role": "user", "content": "Hi"}], "m", None, 0.7, 123)
    bound = bound_of(CallPlan(call, route, "m"))
    assert (bound.output, bound.total) == (123, bound.input + 123)
    texts = bound_of(EmbedPlan(check_embed("x" * 900, "m"), route))
    assert (texts.output, 300 < texts.input < 330) == (0, True)
    assert Bound(7, None).total == 7


def test_the_price_is_that_of_the_route() -> None:
    target = Target("http://a.test", KEY)
    assert price_of(target.route("gpt-4o"), BOUND) == pytest.approx(0.0075)
    assert price_of(target.route("a-model-without-a-price"), BOUND) is None


@pytest.mark.parametrize(
    ("unpriced", "price", "bound", "amount"),
    [
        ("refuse", 0.0075, BOUND, 7_500_000),
        ("refuse", 1e-12, BOUND, 1),  # rounded up
        ("refuse", None, BOUND, None),
        ("refuse", 0.0075, Bound(1000, None), None),
        ("allow", None, BOUND, 0),
        ("allow", 0.0075, Bound(1000, None), 7_500_000),
        (1e-6, None, BOUND, 1_500_000),
        (1e-6, 0.0075, BOUND, 7_500_000),
    ],
)
def test_the_amount_to_reserve(
    unpriced: float, price: float | None, bound: Bound, amount: int | None
) -> None:
    assert reserve_amount(Budget(1, unpriced=unpriced), price, bound) == amount


@pytest.mark.parametrize(
    ("unpriced", "price", "amount"),
    [("refuse", 0.001, 1_000_000), ("refuse", None, None), ("allow", None, 0), (1e-6, None, 3000)],
)
def test_the_amount_to_settle(unpriced: float, price: float | None, amount: int | None) -> None:
    usage: Usage = {
        "prompt_tokens": 2,
        "completion_tokens": 1,
        "total_tokens": 3,
        "cost_estimate": price,
    }
    assert settled_amount(Budget(1, unpriced=unpriced), usage) == amount
