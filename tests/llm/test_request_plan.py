"""The facts of a request that the retry rules know."""

from coreason_client.llm._answer import Tokens
from coreason_client.llm._models import models_plan
from coreason_client.llm._plan import RequestPlan, estimated_prompt
from coreason_client.llm._route import Target

ROUTE = Target("http://127.0.0.1:9", "sk-key").route("openai/m")


def test_a_plan_must_estimate_its_tokens() -> None:
    assert RequestPlan.__abstractmethods__ == {"estimated_tokens"}
    assert estimated_prompt(b"x" * 43) == 11


def test_the_price_is_that_of_the_model_and_the_provider() -> None:
    asked: list[object] = []

    def price(*arguments: object) -> float:
        asked.append(arguments)
        return 0.5

    plan = models_plan(ROUTE)
    plan.pricing = price
    assert plan.price(Tokens(1, 0)) == 0.5
    assert asked == [("openai", "m", Tokens(1, 0))]


def test_by_default_no_parameter_can_be_dropped() -> None:
    assert models_plan(ROUTE).drop_parameter("limit") is False
