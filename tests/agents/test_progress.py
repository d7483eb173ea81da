"""The progress of an interrupted answer, and its usage. Pure."""

from typing import Any

import pytest

from coreason_client.agents._answer import AnswerProgress, added
from coreason_client.llm import Message, Usage
from coreason_client.server import Resumed

MESSAGES: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url"}]},
    {"role": "assistant", "content": None, "tool_calls": []},
]


def resumed(text: str, checkpoint: Any = None) -> Resumed:
    return Resumed(text, (("DELTA", text),), checkpoint)


@pytest.mark.parametrize(
    ("text", "checkpoint", "can"),
    [
        ("The sky", None, True),
        ("", None, False),
        (" \n", None, False),
        ("The sky", {"reasoned": True}, False),
        ("The sky", {"reasoned": False, "length": 3}, True),
    ],
)
def test_only_text_without_reasoning_is_continued(text: str, checkpoint: Any, *, can: bool) -> None:
    assert AnswerProgress.of(resumed(text, checkpoint), MESSAGES).can_continue is can


def test_each_interrupted_request_is_counted_once() -> None:
    first = AnswerProgress.of(resumed("a" * 40), MESSAGES)
    assert first.completion_tokens == 14
    again = AnswerProgress.of(resumed("a" * 80, first.checkpoint()), MESSAGES)
    assert again.completion_tokens == 28
    # The second prompt had the beginning of the answer too.
    assert again.prompt_tokens == 2 * first.prompt_tokens + 10
    assert again.text == "a" * 80


def test_a_checkpoint_keeps_that_the_model_has_reasoned() -> None:
    stored = AnswerProgress().with_reasoning().checkpoint()
    assert AnswerProgress.of(resumed("a", stored), MESSAGES).reasoned


def test_the_beginning_is_the_last_message() -> None:
    sent = AnswerProgress("The sky ").messages(MESSAGES)
    assert sent == [*MESSAGES, {"role": "assistant", "content": "The sky ", "prefix": True}]


@pytest.mark.parametrize(("text", "left"), [("a" * 40, 86), ("a" * 4000, 1)])
def test_the_rest_may_have_what_is_left_of_the_length(text: str, left: int) -> None:
    assert AnswerProgress(text).tokens_left(100) == left


def test_without_a_limit_the_rest_of_an_answer_has_none() -> None:
    assert AnswerProgress("The sky").tokens_left(None) is None


@pytest.mark.parametrize(
    ("cost", "price", "total"), [(0.5, 0.25, 0.75), (None, 0.25, None), (0.5, None, None)]
)
def test_the_usage_of_all_requests_is_added(
    cost: float | None, price: float | None, total: float | None
) -> None:
    usage: Usage = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "total_tokens": 12,
        "cost_estimate": cost,
        "cached_tokens": 3,
    }
    asked: list[tuple[int, int]] = []

    def price_of(prompt: int, completion: int) -> float | None:
        asked.append((prompt, completion))
        return price

    assert added(usage, AnswerProgress("a", 5, 1), price_of) == {
        "prompt_tokens": 15,
        "completion_tokens": 3,
        "total_tokens": 18,
        "cost_estimate": total,
        "cached_tokens": 3,
        "estimated": True,
    }
    # Without a price of the last request, the table may not be loaded.
    assert asked == ([] if cost is None else [(5, 1)])
