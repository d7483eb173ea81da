"""The encoded request of one model, and parameters that it must do without."""

import pytest

from coreason_client.llm import LLMRequestError
from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._route import Target
from tests.llm.play import (
    BASE,
    KEY,
    MESSAGES,
    Play,
    reply,
    unsupported,
)


@pytest.mark.parametrize(
    ("model", "old", "new"),
    [
        ("m", "max_tokens", "max_completion_tokens"),
        ("openai/m", "max_completion_tokens", "max_tokens"),
    ],
)
def test_the_length_is_renamed(model: str, old: str, new: str) -> None:
    play = Play(unsupported(old), reply(), models=[model])
    play.run()
    first, second = play.bodies
    assert first.pop(old) == second.pop(new) == 100
    assert first == second


def test_a_nested_parameter_is_dropped_with_what_holds_it() -> None:
    play = Play(unsupported("reasoning.effort"), reply(), extra={"reasoning": {"effort": "high"}})
    play.run()
    assert "reasoning" not in play.bodies[1]


@pytest.mark.parametrize("parameter", ["input", "input[0].status"])
def test_the_conversation_is_never_dropped(parameter: str) -> None:
    play = Play(unsupported(parameter), reply(), models=["openai/o3-pro"])
    assert play.fails(LLMRequestError).attempts == 1


def test_encrypted_reasoning_is_dropped_if_the_provider_does_not_support_it() -> None:
    answer = reply(body={"output": [{"type": "message", "content": "Hi"}]})
    play = Play(unsupported("include[0]"), answer, models=["openai/o3-pro"])
    assert play.run()["data"]["content"] == "Hi"
    first, second = play.bodies
    assert first.pop("include") == ["reasoning.encrypted_content"]
    assert first == second


@pytest.mark.parametrize(("max_tokens", "answer"), [(None, 2000), (7, 7)])
def test_the_tokens_of_a_call_are_estimated(max_tokens: int | None, answer: int) -> None:
    route = Target(BASE, KEY).route("m")
    plan = CallPlan(check_call(MESSAGES, "m", None, 0.7, max_tokens), route)
    assert plan.estimated_tokens == -(-len(plan.content) // 4) + answer
