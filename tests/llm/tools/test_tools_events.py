"""Events and results of runs."""

import dataclasses

import pytest

from coreason_client.llm import RunResult, ToolCallStarted
from coreason_client.llm._answer import NO_USAGE

from .answers import response


def test_an_event_cannot_be_changed() -> None:
    event = ToolCallStarted(1, "c", "add", {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.turn = 2  # type: ignore[misc]


def test_the_text_and_the_parsed_answer_of_a_result() -> None:
    result: RunResult[int] = RunResult(response(content="5", parsed=5), [], NO_USAGE, 1, [])
    assert (result.text, result.parsed) == ("5", 5)
    empty: RunResult[None] = RunResult(response(content=None), [], NO_USAGE, 1, [])
    assert empty.text == ""
    with pytest.raises(KeyError):
        empty.parsed  # noqa: B018
