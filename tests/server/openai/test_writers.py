"""Any answer becomes events that the types of the official package accept, whatever the pages."""

import json
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from coreason_client.server.answer._entries import valid_entries
from coreason_client.server.answer._writer import Writer
from coreason_client.server.log.base import StreamMeta
from coreason_client.server.openai._chat import ChatWriter
from coreason_client.server.openai._responses import ResponseWriter

from ..answer.packets import ANSWERS, STREAM, Packet, entries_of, packets_of

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_META = StreamMeta(
    stream_id=STREAM,
    principal="p",
    request_id=UUID(int=1),
    fingerprint="f",
    epoch=1,
    last_seq=0,
    opened_at=1_780_000_000.5,
    outcome=None,
    ended_at=None,
    cancel_requested=False,
    body_gone=False,
)
_LAST = ("response.completed", "response.incomplete", "response.failed")
_MODEL = 'model with "quotes" and 100%d'


def _responses(after: int = -1) -> ResponseWriter:
    return ResponseWriter(_META, _MODEL, 20, after=after)


def _chat(*, usage: bool = False) -> ChatWriter:
    return ChatWriter(_META, _MODEL, includes_usage=usage)


def _written(writer: Writer, entries: list[bytes]) -> bytes:
    return writer.start() + writer.feed(entries)


def _frames(written: bytes) -> list[str]:
    assert written.endswith(b"\n\n")
    return written.decode().split("\n\n")[:-1]


def _events(written: bytes) -> list[dict[str, Any]]:
    found = []
    for frame in _frames(written):
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def _chunks(written: bytes) -> list[dict[str, Any]]:
    *frames, done = _frames(written)
    assert done == "data: [DONE]"
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def _text(entries: list[bytes]) -> str:
    """Return the text of the packets before the first rewind."""
    text = ""
    for packet in packets_of(entries):
        if packet["op"] == "EVENT" and packet["p"].get("type") == "REWIND":
            data = packet["p"].get("data")
            if isinstance(data, dict) and type(data.get("to_seq")) is int:
                break
        if packet["op"] == "DELTA":
            text += packet["p"]
    return text


def _without_markdown(answer: list[Packet]) -> list[Packet]:
    shown = ("MARKDOWN_BLOCK", "MEDIA_CAROUSEL", "ARTIFACT")
    return [(op, p) for op, p in answer if op != "EVENT" or p.get("type") not in shown]


@given(ANSWERS)
def test_every_event_has_the_type_that_the_package_knows(answer: list[Packet]) -> None:
    events = _events(_written(_responses(), entries_of(answer)))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        _EVENT.validate_python(event)
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert [kind for kind in kinds if kind in _LAST] == kinds[-1:]
    assert not any("error" in event for event in events)  # the package would raise an error


@given(ANSWERS)
def test_every_item_begins_and_ends_once_and_is_whole_in_the_last_event(
    answer: list[Packet],
) -> None:
    events = _events(_written(_responses(), entries_of(answer)))
    rewound = events[-1]["response"]["metadata"].get("problem") == "rewound"
    added = [e["output_index"] for e in events if e["type"] == "response.output_item.added"]
    done = {
        e["output_index"]: e["item"] for e in events if e["type"] == "response.output_item.done"
    }
    assert added == list(range(len(added)))
    output = events[-1]["response"]["output"]
    if not rewound:
        assert sorted(done) == added
        assert output == [done[index] for index in added]
    for index, item in enumerate(output):
        pieces = [
            e["delta"]
            for e in events
            if e["type"] == "response.output_text.delta" and e["output_index"] == index
        ]
        if item["type"] == "message":
            assert item["content"][0]["text"] == "".join(pieces)
    Response.model_validate(events[-1]["response"])


@given(ANSWERS)
def test_the_text_is_exact(answer: list[Packet]) -> None:
    entries = entries_of(_without_markdown(answer))
    events = _events(_written(_responses(), entries))
    texts = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    chunks = _chunks(_written(_chat(), entries))
    contents = [
        choice["delta"].get("content", "")
        for chunk in chunks
        for choice in chunk.get("choices", ())
    ]
    assert "".join(texts) == "".join(contents) == _text(entries)


@given(ANSWERS)
def test_a_resume_after_any_event_has_exactly_the_others(answer: list[Packet]) -> None:
    entries = entries_of(answer)
    frames = _frames(_written(_responses(), entries))
    for after in range(-1, len(frames)):
        rest = _written(_responses(after), entries)
        assert rest == "".join(f"{frame}\n\n" for frame in frames[after + 1 :]).encode()


@given(ANSWERS, st.data())
def test_pages_of_any_size_give_the_same_bytes(answer: list[Packet], data: st.DataObject) -> None:
    entries = entries_of(answer)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=4)))
    for make in (_responses, _chat):
        writer = make()
        pieces = [writer.start()]
        for start, end in zip([0, *cuts], [*cuts, len(entries)], strict=True):
            pieces.append(writer.feed(entries[start:end]))
        assert b"".join(pieces) == _written(make(), entries)
        one_by_one = make()
        joined = [one_by_one.start()]
        for start, end in zip([0, *cuts], [*cuts, len(entries)], strict=True):
            joined.append(one_by_one.feed_joined(b"".join(entries[start:end])))
        assert b"".join(joined) == b"".join(pieces)


@given(ANSWERS)
def test_a_response_can_be_read_at_any_time(answer: list[Packet]) -> None:
    writer = _responses()
    writer.start()
    for _, entry in valid_entries(entries_of(answer)):
        response = Response.model_validate(writer.response())
        assert response.status == "in_progress"
        writer.feed([entry])
    last = writer.response()
    assert Response.model_validate(last).status != "in_progress"
    assert last["metadata"].get("problem") != "rewound"


@given(ANSWERS, st.booleans())
def test_every_chunk_has_the_type_that_the_package_knows(answer: list[Packet], usage: bool) -> None:
    writer = _chat(usage=usage)
    chunks = _chunks(_written(writer, entries_of(answer)))
    failed = [chunk for chunk in chunks if "error" in chunk]
    assert failed == chunks[len(chunks) - len(failed) :]
    assert len(failed) <= 1
    for chunk in chunks[: len(chunks) - len(failed)]:
        ChatCompletionChunk.model_validate(chunk)
        assert ("usage" in chunk) is usage
    reasons = [c["finish_reason"] for chunk in chunks for c in chunk.get("choices", ())]
    ended = [reason for reason in reasons if reason is not None]
    assert len(ended) == (0 if failed else 1)
    if not failed:
        completion = ChatCompletion.model_validate(writer.completion())
        assert completion.choices[0].finish_reason == ended[0]


def test_a_tool_result_is_cut_with_a_mark_and_its_length() -> None:
    call = ("EVENT", {"type": "TOOL_CALL", "data": {"call_id": "1", "name": "t", "arguments": {}}})
    result = ("EVENT", {"type": "TOOL_RESULT", "data": {"call_id": "1", "result": "x" * 30}})
    writer = _responses()
    writer.feed(entries_of([call, result]))
    [item] = writer.response()["output"]
    assert item["output"] == f"{'x' * 20}\n[cut after 20 of 30 characters]"
    assert (item["arguments"], item["server_label"], item["status"]) == ("{}", _MODEL, "completed")


def test_a_second_call_with_the_id_of_an_open_one_is_an_event_of_the_agent() -> None:
    call = ("EVENT", {"type": "TOOL_CALL", "data": {"call_id": "1", "name": "t", "arguments": {}}})
    result = ("EVENT", {"type": "TOOL_RESULT", "data": {"call_id": "1", "result": "x"}})
    writer = _responses()
    writer.feed(entries_of([call, call, result, result, call, ("CLOSE", {"reason": "complete"})]))
    output = writer.response()["output"]
    assert [item["status"] for item in output] == ["completed", "incomplete"]


def test_results_that_are_too_large_together_are_not_repeated_at_the_end() -> None:
    packets: list[Packet] = [("DELTA", "text")]
    for number in range(9):
        data = {"call_id": str(number), "name": "t", "arguments": {}}
        packets.append(("EVENT", {"type": "TOOL_CALL", "data": data}))
        result = {"call_id": str(number), "result": "x" * 1_000_000}
        packets.append(("EVENT", {"type": "TOOL_RESULT", "data": result}))
    packets.append(("CLOSE", {"reason": "complete"}))
    writer = ResponseWriter(_META, _MODEL, 1_000_000)
    events = _events(_written(writer, entries_of(packets)))
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    whole = [item["output"] for item in done if "output" in item]
    assert [len(output) for output in whole] == [1_000_000] * 9
    output = events[-1]["response"]["output"]
    assert output[0]["content"][0]["text"] == "text"
    assert {item["output"] for item in output[1:]} == {"\n[cut after 0 of 1000000 characters]"}


def test_citations_have_the_position_of_the_text_in_characters() -> None:
    source = {"source_id": "s", "uri": "https://a.example", "title": "A", "confidence": 1.0}
    cite = ("EVENT", {"type": "CITATION_BLOCK", "data": {"citations": [source]}})
    packets: list[Packet] = [cite, ("DELTA", 'é"\n'), ("DELTA", "𝄞x"), cite]
    expected = [
        {
            "type": "url_citation",
            "url": "https://a.example",
            "title": "A",
            "start_index": position,
            "end_index": position,
        }
        for position in (0, 5)
    ]
    responses = _responses()
    responses.feed(entries_of([*packets, ("CLOSE", {"reason": "complete"})]))
    [item] = responses.response()["output"]
    assert item["content"][0]["annotations"] == expected
    chat = _chat()
    chat.feed(entries_of(packets))
    nested = chat.completion()["choices"][0]["message"]["annotations"]
    assert [{"type": "url_citation", **one["url_citation"]} for one in nested] == expected
