"""Answers and outputs as JSON in a journal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_core import to_json

from coreason_client.llm import (
    Delta,
    Finish,
    LLMBudgetError,
    LLMError,
    LLMRateLimitError,
    LLMResponseError,
    LLMRunTimeoutError,
    ReasoningDelta,
    Restarted,
    TextDelta,
    ToolAbort,
    ToolCallDelta,
    UsageDelta,
)
from coreason_client.llm.tools._output import (
    MAX_IMAGE_CHARS,
    MAX_TEXT_CHARS,
    ToolOutput,
    dump_output,
    dump_turn,
    load_output,
    load_turn,
    with_parsed,
)
from coreason_client.server.durable._results import MAX_RESULT_BYTES

from .answers import response

ANSWER = response(content="Hi")
DELTA = st.one_of(
    st.builds(TextDelta, st.text()),
    st.builds(ReasoningDelta, st.text()),
    st.builds(
        ToolCallDelta, st.integers(0, 5), st.none() | st.text(), st.none() | st.text(), st.text()
    ),
    st.builds(Restarted, st.text(), st.text()),
    st.just(UsageDelta(ANSWER["usage"])),
    st.builds(Finish, st.sampled_from(["stop", "length", "tool_calls"])),
)


def broken() -> LLMError:
    error = LLMResponseError("the stream broke", provider="openai")
    error.spent = ANSWER["usage"]
    return error


def stored(*arguments: Any) -> Any:
    return json.loads(json.dumps(dump_turn(*arguments)))


@given(st.lists(DELTA))
def test_deltas_come_back(deltas: list[Delta]) -> None:
    turn = load_turn(stored(deltas, ANSWER))
    assert turn == (deltas, ANSWER, None)


def test_the_parsed_answer_is_not_stored() -> None:
    answer = response(content="{}", parsed=object())
    turn = load_turn(stored([], answer))
    assert turn.response is not None
    assert "parsed" not in turn.response["data"]


class Sky(BaseModel):
    colour: str


@pytest.mark.parametrize(
    ("response_format", "parsed"),
    [(Sky, Sky(colour="blue")), ({"type": "json_object"}, {"colour": "blue"})],
)
def test_the_answer_is_parsed_again(response_format: Any, parsed: Any) -> None:
    answer = with_parsed(response(content='{"colour": "blue"}'), response_format)
    assert answer["data"]["parsed"] == parsed


@pytest.mark.parametrize("answer", [response(("add", {})), response(filtered=True)])
def test_what_is_not_an_answer_is_not_parsed(answer: Any) -> None:
    assert "parsed" not in with_parsed(answer, Sky)["data"]
    assert "parsed" not in with_parsed(response(), None)["data"]


@pytest.mark.parametrize("kind", [LLMRateLimitError, LLMRunTimeoutError])
def test_an_error_keeps_its_class_and_its_fields(kind: type[LLMError]) -> None:
    error = kind("slow", provider="openai", status=429, retry_after=2.0, attempts=3)
    loaded = load_turn(stored([TextDelta("H")], None, error)).error
    assert type(loaded) is kind
    assert str(loaded) == "slow"
    assert vars(loaded) == vars(error)


def test_an_answer_that_was_not_read_to_its_end() -> None:
    turn = load_turn(stored([TextDelta("H")], None))
    assert turn.deltas == [TextDelta("H")]
    assert isinstance(turn.error, LLMResponseError)


@pytest.mark.parametrize(
    "output",
    [
        ToolOutput("text"),
        ToolOutput("Error: no", is_error=True),
        ToolOutput("", images=("data:image/png;base64,AA==",)),
    ],
)
def test_outputs_come_back(output: ToolOutput) -> None:
    loaded, seconds = load_output(json.loads(json.dumps(dump_output(output, 0.5))))
    assert (loaded, seconds) == (output, 0.5)


def test_an_abort_comes_back() -> None:
    loaded, _ = load_output(dump_output(ToolOutput("x", is_error=True, abort=ToolAbort("no")), 0))
    assert isinstance(loaded.abort, ToolAbort)
    assert str(loaded.abort) == "no"


@pytest.mark.parametrize("character", ["a", "한", "\U0001f600", "\x01"])
@pytest.mark.parametrize("images", [(), ("x" * MAX_IMAGE_CHARS,)])
def test_large_outputs_fit_into_a_step(character: str, images: tuple[str, ...]) -> None:
    large = dump_output(ToolOutput(character * (MAX_TEXT_CHARS + 1), images=images), 0)
    assert "[truncated" in large["text"]
    assert len(to_json(large)) < MAX_RESULT_BYTES


def test_images_that_are_too_large_are_left_out() -> None:
    images = dump_output(ToolOutput("a", images=("x" * (MAX_IMAGE_CHARS + 1),)), 0)
    assert images["images"] == []
    assert "too large" in images["text"]


@pytest.mark.parametrize("error", [broken(), LLMBudgetError("no money", provider="openai")])
def test_an_error_of_any_class_comes_back_with_its_fields(error: LLMError) -> None:
    found = load_turn(stored((), None, error)).error
    assert found is not None
    assert (type(found), str(found)) == (type(error), str(error))
    assert (found.provider, found.spent) == (error.provider, error.spent)
