"""The reader of the Responses API: servers differ, the answer does not."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import EventsLost, FaultReceived, Malformed, ModelAnswer
from coreason_client.llm.providers._responses_reader import (
    ResponsesReader,
    end_of,
    error_in,
    tokens_of,
)
from coreason_client.llm.providers.responses import ADAPTER
from coreason_client.llm.types import ReasoningDelta, TextDelta, ToolCallDelta
from tests.llm.providers.responses_events import (
    ANYTHING,
    EVENTS,
    OBJECTS,
    accents,
    outputs,
    stream_of,
)

ENDS = st.sampled_from(
    [
        {"status": "completed", "usage": {"input_tokens": 3, "output_tokens": 2}},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    ]
)


def wire(value: Any) -> bytes:
    return json.dumps(value).encode()


def joined(pieces: list[Any]) -> tuple[str, str, list[tuple[str, str]]]:
    """The text, the reasoning and the calls that a caller has received."""
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextDelta))
    reasoning = "".join(piece.text for piece in pieces if isinstance(piece, ReasoningDelta))
    calls: dict[int, list[str]] = {}
    for piece in pieces:
        if isinstance(piece, ToolCallDelta):
            known = calls.setdefault(piece.index, [piece.name or "", ""])
            known[1] += piece.arguments
    return text, reasoning, [(name, arguments) for name, arguments in calls.values()]


def read(*events: Any) -> tuple[ResponsesReader, list[Any]]:
    reader = ResponsesReader()
    pieces: list[Any] = []
    for event in events:
        pieces += reader.read(wire(event), b"")
    return reader, pieces


@given(
    events=st.lists(EVENTS | OBJECTS | ANYTHING, max_size=5),
    name=st.sampled_from([b"", b"error", b"response.completed", b"\xff"]),
)
def test_any_event_is_read_or_refused(events: list[Any], name: bytes) -> None:
    reader = ResponsesReader()
    for event in events:
        with suppress(EventsLost, FaultReceived, Malformed):
            pieces = reader.read(wire(event), name)
            assert all(isinstance(p, TextDelta | ReasoningDelta | ToolCallDelta) for p in pieces)
    assert isinstance(reader.answer(), ModelAnswer)


@given(data=st.binary(max_size=20), name=st.sampled_from([b"", b"error"]))
def test_any_bytes_are_read_or_refused(data: bytes, name: bytes) -> None:
    reader = ResponsesReader()
    with suppress(FaultReceived, Malformed):
        assert not reader.read(data, name)
    assert not reader.started


@st.composite
def streams(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]], bool]:
    """A complete answer, a stream of it, and True if the stream contains its items."""
    output, accent, end = draw(outputs()), draw(accents()), draw(ENDS)
    return (
        {**end, "output": output},
        stream_of(draw, output, accent, end),
        (accent.done or accent.output),
    )


@given(both=streams())
def test_a_stream_gives_the_same_answer(
    both: tuple[dict[str, Any], list[dict[str, Any]], bool],
) -> None:
    whole, events, has_items = both
    expected = ADAPTER.answer(whole)
    reader, pieces = read(*events)
    found = reader.answer()
    if not has_items:
        found.items = expected.items
    assert reader.done
    assert found == expected
    calls = [(call.name, call.arguments) for call in expected.calls]
    assert joined(pieces) == (expected.content or "", expected.reasoning, calls)


@given(both=streams(), cut=st.integers(0, 30), overlap=st.integers(0, 5))
def test_a_resumed_stream_continues_in_the_same_reader(
    both: tuple[dict[str, Any], list[dict[str, Any]], bool], cut: int, overlap: int
) -> None:
    _, events, _ = both
    for number, event in enumerate(events):
        event["sequence_number"] = number
    cut = min(max(cut, 2), len(events) - 1)
    expected, all_pieces = read(*events)
    reader, pieces = read(*events[:cut])
    assert reader.sequence == cut - 1
    assert reader.response_id == "resp_1"
    assert not reader.done
    for event in events[max(cut - overlap, 0) :]:
        pieces += reader.read(wire(event), b"")
    assert pieces == all_pieces
    assert reader.answer() == expected.answer()
    assert reader.done
    assert reader.sequence == len(events) - 1


def test_without_numbers_nothing_is_dropped() -> None:
    delta = {"type": "response.output_text.delta", "delta": "ha"}
    assert joined(read(delta, delta)[1])[0] == "haha"
    same = {**delta, "sequence_number": 0}
    reader, pieces = read(same, same, same)
    assert joined(pieces)[0] == "hahaha"
    assert reader.sequence is None


def test_a_repeated_event_is_dropped() -> None:
    events = [
        {"type": "response.output_text.delta", "delta": text, "sequence_number": number}
        for number, text in enumerate("abc")
    ]
    reader, pieces = read(*events, *events[1:], {**events[0], "sequence_number": 3})
    assert joined(pieces)[0] == "abca"
    assert reader.sequence == 3


@pytest.mark.parametrize("id_", ["resp_1", "resp_bGl0ZWxsbQ=="])
def test_the_id_of_the_response_is_the_first_one(id_: str) -> None:
    event = {"type": "response.created", "response": {"id": id_}}
    late = {"type": "response.in_progress", "response": {"id": "other"}}
    assert read(event, late)[0].response_id == id_


@pytest.mark.parametrize("id_", ["", None, 7, "..", "a/b", "a?b", "a b", "é", "x" * 1001])
def test_an_id_that_is_no_part_of_a_url_is_not_used(id_: Any) -> None:
    assert read({"type": "response.created", "response": {"id": id_}})[0].response_id is None


def test_the_tokens_of_an_answer_that_failed_are_known() -> None:
    reader = ResponsesReader()
    usage = {"input_tokens": 3, "output_tokens": 2}
    with pytest.raises(FaultReceived):
        reader.read(wire({"type": "response.failed", "response": {"usage": usage}}), b"")
    assert reader.tokens is not None
    assert (reader.tokens.prompt, reader.tokens.completion) == (3, 2)
    assert not reader.done


def test_the_end_of_a_response() -> None:
    assert end_of({}) == end_of({"status": "completed"}) == "stop"
    assert end_of({"status": "incomplete"}) == "length"
    details = {"incomplete_details": {"reason": "content_filter"}}
    assert end_of({"status": "incomplete", **details}) == "filtered"


def test_the_error_of_a_response() -> None:
    assert error_in({"output": [], "status": "completed", "error": None}) is None
    failed = error_in({"output": [], "status": "failed", "error": {"code": "c", "message": "m"}})
    assert failed is not None
    assert (failed.message, failed.codes) == ("m", ("c",))
    cancelled = error_in({"output": [], "status": "cancelled"})
    assert cancelled is not None
    assert cancelled.message == "the answer has the status cancelled, without a reason"


def test_the_tokens_of_a_response() -> None:
    assert tokens_of({}) is None
    tokens = tokens_of({"usage": {"output_tokens": 2}})
    assert tokens is not None
    assert (tokens.prompt, tokens.completion) == (None, 2)


def completed(*output: dict[str, Any]) -> dict[str, Any]:
    response = {"status": "completed", "output": list(output)}
    return {"type": "response.completed", "response": response}


def test_the_complete_answer_counts_where_the_deltas_differ() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
    message = {"type": "message", "content": [{"type": "output_text", "text": "right words"}]}
    reader, pieces = read(
        {"type": "response.output_text.delta", "delta": "wrong words"},
        {"type": "response.output_item.added", "item": {**call, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": '{"a": 1}'},
        completed(message, {**call, "arguments": '{"a": 2}'}),
    )
    answer = reader.answer()
    assert answer.content == "right words"
    assert [call.arguments for call in answer.calls] == ['{"a": 2}']
    assert joined(pieces)[0] == "wrong words"


@pytest.mark.parametrize(
    ("streamed", "complete", "delivered", "kept"),
    [
        ("wrong", ["right", "too"], "wrong", "right\n\ntoo"),
        ("right", ["right", "too"], "right\n\ntoo", "right\n\ntoo"),
        ("right", ["right"], "right", "right"),
        ("alone", [], "alone", "alone"),  # it names none, so it contradicts none
    ],
)
def test_the_reasoning_of_the_complete_answer_counts_too(
    streamed: str, complete: list[str], delivered: str, kept: str
) -> None:
    summary = [{"type": "summary_text", "text": text} for text in complete]
    message = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    reader, pieces = read(
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "delta": streamed},
        {"type": "response.output_text.delta", "delta": "Hi"},
        completed({"type": "reasoning", "id": "rs_1", "summary": summary}, message),
    )
    assert "".join(p.text for p in pieces if isinstance(p, ReasoningDelta)) == delivered
    assert (reader.answer().reasoning, reader.answer().content) == (kept, "Hi")


def test_a_complete_answer_without_a_message_says_nothing_about_the_text() -> None:
    reader, _ = read(
        {"type": "response.output_text.delta", "delta": "Hi"},
        completed({"type": "reasoning", "summary": []}),
    )
    assert reader.answer().content == "Hi"


def test_events_before_the_last_one_may_be_missing() -> None:
    """The last event has what was lost, or a gateway has added it."""
    message = {"type": "message", "content": [{"type": "output_text", "text": "Hi there"}]}
    delta = {"type": "response.output_text.delta", "delta": "Hi", "sequence_number": 1}
    reader, pieces = read(delta, {**completed(message), "sequence_number": 9})
    assert reader.done
    assert joined(pieces)[0] == "Hi there" == reader.answer().content


def test_a_gap_is_not_read_over() -> None:
    delta = {"type": "response.output_text.delta", "delta": "Hi"}
    reader, _ = read({**delta, "sequence_number": 1})
    with pytest.raises(EventsLost, match="4 came after 1"):
        reader.read(wire({**delta, "sequence_number": 4}), b"")
    assert (reader.sequence, reader.answer().content) == (1, "Hi")
