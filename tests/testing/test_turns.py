from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client import ArgumentError
from coreason_client.testing import ModelFailure, ModelToolCall, ModelTurn, fake_model
from tests.each import each

WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: ModelTurn(7), "text must be text or a sequence of texts"),  # type: ignore[arg-type]
    (lambda: ModelTurn(["a", 1]), "text must be text"),  # type: ignore[list-item]
    (lambda: ModelTurn("a", ["f"]), "tool_calls must have a ModelToolCall"),  # type: ignore[list-item]
    (lambda: ModelTurn("a", finish="done"), "finish must be None or one of stop"),  # type: ignore[arg-type]
    (lambda: ModelTurn("a", usage={"tokens": 1}), "usage must have only the keys prompt_tokens"),
    (lambda: ModelTurn("a", usage={"prompt_tokens": -1}), "must be 0 or a greater whole number"),
    (lambda: ModelTurn("a b", end_after=3), "end_after must be .* from 0 to 2, .* got 3"),
    (lambda: ModelTurn("a", stall_after="end"), "stall_after must be"),  # type: ignore[arg-type]
    (
        lambda: ModelTurn("a", end_after=0, disconnect_after=0),
        "disconnect_after and end_after must not be combined",
    ),
    (
        lambda: ModelTurn("a", end_after=0, failure=ModelFailure()),
        "end_after and failure must not be combined",
    ),
    (lambda: ModelToolCall(""), "name must be the name of a tool"),
    (lambda: ModelToolCall("f", {"a": object()}), "arguments must be JSON"),
    (lambda: ModelFailure(200), "status must be from 400 to 599, got 200"),
    (lambda: fake_model(7), "turns must be a turn or a sequence"),  # type: ignore[arg-type]
    (lambda: fake_model(["a", 7]), r"turns\[1\] must be text, a ModelTurn"),  # type: ignore[list-item]
    (lambda: fake_model("a", exhausted="stop"), "exhausted must be one of"),  # type: ignore[arg-type]
]


@each(("make", "message"), WRONG, lambda case: case[1])
def test_a_wrong_turn_says_what_is_wrong(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


@given(st.text())
def test_text_is_streamed_in_words_that_give_the_text(text: str) -> None:
    pieces = ModelTurn(text).text_pieces
    assert "".join(pieces) == text
    assert all(len(piece.split()) <= 1 for piece in pieces)


@given(st.dictionaries(st.text(), st.integers() | st.text()))
def test_the_pieces_of_arguments_give_the_arguments(arguments: dict[str, Any]) -> None:
    call = ModelToolCall("f", arguments)
    assert call.value == arguments
    assert "".join(call.pieces) == call.text


def test_arguments_can_be_anything_that_a_model_might_send() -> None:
    assert ModelToolCall("f").pieces == ("{}",)
    assert ModelToolCall("f", "").pieces == ("",)
    assert ModelToolCall("f", "{oops").value == "{oops"
    assert ModelToolCall("f", ['{"a"', ": 1}"]).value == {"a": 1}


def test_the_end_follows_from_the_content() -> None:
    assert ModelTurn("a").finish_reason == "stop"
    assert ModelTurn("", ModelToolCall("f")).finish_reason == "tool_calls"
    assert ModelTurn("a", finish="length").finish_reason == "length"
    assert ModelTurn("a b", end_after=0).break_after == 0
    assert ModelTurn("a b").break_after is None
