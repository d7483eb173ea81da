"""The output of an agent, refused values, and the end of a stream."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client import ArgumentError
from coreason_client.server import AgentStream, MemoryStreamLog, StreamEnded
from coreason_client.server.log import NewStream
from coreason_client.server.parts import File
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    ErrorSeverity,
    MediaCarousel,
    MediaItem,
    ProgressUpdate,
    StreamError,
    StreamOpCode,
    StreamPacket,
    parse_packet,
)
from coreason_manifest.definitions.reports import (
    ToolCallReport,
    ToolResultReport,
    UsageReport,
    report_of,
)
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio
from .peer import envelope
from .streams import agent_stream, writer_of


async def begin(
    log: MemoryStreamLog | None = None, body: dict[str, Any] | None = None, principal: str = "p"
) -> tuple[MemoryStreamLog, AgentStream]:
    log = log or MemoryStreamLog()
    request = ServiceRequest.model_validate(body or envelope())
    new = NewStream(uuid4(), principal, request.request_id, "f")
    return log, agent_stream(request, (await log.open(new, "me")).meta, log)


async def packets(log: MemoryStreamLog, stream_id: UUID) -> list[StreamPacket]:
    page = await log.read(stream_id, 0, 1000, 0)
    return [parse_packet(e.data_bytes) for e in SSEDecoder().feed(b"".join(page.entries))]


@pytest.mark.proves("RFC002-1-packet", "RFC002-1-seq-increasing", "R12e", "RES2-1b", "RES2-1c")
@aio
async def test_writes_every_kind_of_packet_numbered_without_gaps() -> None:
    log, stream = await begin()
    await stream.write("a")
    await stream.write("")
    await stream.thought("hm")
    await stream.progress("reading", 40)
    await stream.progress("reading", status="complete")
    await stream.cite("https://a", title="A")
    await stream.cite(CitationItem(source_id="1", uri="u", title="T", confidence=0.5), "https://b")
    await stream.media("https://a/cat.png", alt_text="a cat")
    await stream.media(MediaItem(url="u", mime_type="audio/ogg"), "https://a/x")
    await stream.markdown("# Hi")
    await stream.warn("slow_source", "One source was slow.", {"seconds": 3})
    await stream.write_packet(op=StreamOpCode.EVENT, p={"anything": [1, None]})
    await stream.write_packet("DELTA", "b")
    await writer_of(stream).complete()
    got = await packets(log, stream.stream_id)
    assert [packet.seq for packet in got] == list(range(1, 15))
    assert {packet.stream_id for packet in got} == {stream.stream_id}
    assert [packet.op.value for packet in got] == [
        *["DELTA"] * 2,
        *["EVENT"] * 8,
        "ERROR",
        "EVENT",
        "DELTA",
        "CLOSE",
    ]
    shown = [packet.p for packet in got]
    assert shown[2].data == {"content": "hm"}
    assert shown[3].data == ProgressUpdate(label="reading", status="running", progress_percent=40)
    assert shown[4].data == ProgressUpdate(label="reading", status="complete")
    assert isinstance(shown[5].data, CitationBlock)
    assert shown[5].data.citations[0].uri == "https://a"
    assert [c.title for c in shown[6].data.citations] == ["T", "https://b"]
    assert isinstance(shown[7].data, MediaCarousel)
    assert shown[7].data.items[0].mime_type == "image/png"
    assert [i.mime_type for i in shown[8].data.items] == ["audio/ogg", "application/octet-stream"]
    assert shown[9].data == {"content": "# Hi"}
    assert shown[10].severity is ErrorSeverity.WARNING
    assert shown[10].details == {"seconds": 3}
    assert shown[11] == {"anything": [1, None]}
    assert shown[13] == {"reason": "complete"}


@pytest.mark.proves("RFC005-agent-no-strings")
@aio
async def test_a_string_is_not_an_error() -> None:
    _, stream = await begin()
    with pytest.raises(ValueError, match="not a string"):
        await stream.write_packet(op=StreamOpCode.ERROR, p="Something went wrong")
    assert not hasattr(stream, "write_error")


@pytest.mark.proves("R17f")
@pytest.mark.parametrize(
    "code", ["", "Rate_limit", "rate-limit", "rate limit", "_x", "x_", "a__b", "1a", "é", "a\n"]
)
@aio
async def test_a_code_that_is_not_snake_case_is_refused(code: str) -> None:
    log, stream = await begin()
    error = StreamError(code=code, message="m", severity=ErrorSeverity.FATAL)
    with pytest.raises(ValueError, match="snake_case"):
        await stream.write_packet(op=StreamOpCode.ERROR, p=error)
    with pytest.raises(ValueError, match="snake_case"):
        await stream.warn(code, "m")
    await stream.warn("http_503_again", "fine")
    assert [packet.seq for packet in await packets(log, stream.stream_id)] == [1]


@aio
async def test_what_is_refused_takes_no_number() -> None:
    log, stream = await begin()
    with pytest.raises(TypeError):
        await stream.write(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a valid StreamOpCode"):
        await stream.write_packet("NOPE", "x")
    with pytest.raises(ValueError, match="EVENT packet carries"):
        await stream.write_packet(StreamOpCode.EVENT, 7)
    await stream.write("a")
    assert [packet.seq for packet in await packets(log, stream.stream_id)] == [1]


@pytest.mark.parametrize("end", ["fail", "close", "complete"])
@aio
async def test_nothing_is_written_after_the_end(end: str) -> None:
    log, stream = await begin()
    if end == "fail":
        await stream.fail("no_data", "There is no data.")
    elif end == "close":
        await stream.write_packet(op=StreamOpCode.CLOSE, p={"reason": "enough"})
    else:
        await writer_of(stream).complete()
    assert stream.ended
    with pytest.raises(StreamEnded):
        await stream.write("more")
    with pytest.raises(StreamEnded):
        await stream.thought("more")
    await writer_of(stream).complete()
    await writer_of(stream).end_with(
        StreamError(code="x", message="m", severity=ErrorSeverity.FATAL)
    )
    assert len(await packets(log, stream.stream_id)) == 1


@pytest.mark.proves("R14j")
@pytest.mark.parametrize("closes_itself", [False, True])
@aio
async def test_a_stream_with_a_transient_error_never_closes(closes_itself: bool) -> None:
    log, stream = await begin()
    await stream.write("half")
    error = StreamError(
        code="internal_error",
        message="Database connection failed",
        severity=ErrorSeverity.TRANSIENT,
        details={"retry_after": 1},
    )
    await stream.write_packet(op=StreamOpCode.ERROR, p=error)
    if closes_itself:
        await stream.write_packet(op=StreamOpCode.CLOSE, p="done")
    await writer_of(stream).complete()
    got = await packets(log, stream.stream_id)
    assert [packet.op.value for packet in got] == ["DELTA", "ERROR", "ERROR"]
    assert got[1].p == error
    assert got[2].p == error.model_copy(update={"severity": ErrorSeverity.FATAL})
    assert (await log.meta(stream.stream_id)).outcome == "internal_error"


@aio
async def test_history_is_what_the_same_conversation_said_before() -> None:
    log = MemoryStreamLog()
    for question, answer in (("one?", "1"), ("two?", "2")):
        _, stream = await begin(log, envelope(question))
        await stream.write(answer)
        await writer_of(stream).complete()
    _, failed = await begin(log, envelope("three?"))
    await failed.write("half")
    await failed.fail("no_data", "There is no data.")
    _, stream = await begin(log, envelope("four?"))
    history = await stream.history()
    assert [(m.role.value, m.text) for m in history] == [
        ("user", "one?"),
        ("assistant", "1"),
        ("user", "two?"),
        ("assistant", "2"),
        ("user", "three?"),
        ("assistant", "half"),
    ]
    assert [turn.outcome for turn in history.turns] == ["complete", "complete", "no_data"]
    assert [turn.complete for turn in history.turns] == [True, True, False]
    assert [m.text for m in await stream.history(limit=1)] == ["three?", "half"]
    assert await stream.history(limit=0) == []
    _, other_session = await begin(log, envelope(session="t"))
    assert await other_session.history() == []
    _, other_principal = await begin(log, principal="q")
    assert await other_principal.history() == []


@aio
async def test_a_client_that_sends_the_whole_conversation_does_not_double_it() -> None:
    log = MemoryStreamLog()
    said = [ChatMessage.user("one?"), ChatMessage.assistant("1"), ChatMessage.user("two?")]
    body = envelope()
    body["payload"] = {"messages": [json.loads(message.to_json()) for message in said]}
    _, stream = await begin(log, body)
    await stream.write("2")
    await writer_of(stream).complete()
    assert [m.text for m in await stream.history()] == ["two?", "2"]


@aio
async def test_a_request_without_messages_leaves_its_answer() -> None:
    log = MemoryStreamLog()
    _, stream = await begin(log, envelope() | {"payload": {"payload": {"do": "it"}}})
    await stream.write("done")
    await writer_of(stream).complete()
    assert [m.text for m in await stream.history()] == ["done"]


# Artifacts, questions, refusals and messages.


@aio
async def test_an_artifact_is_an_event() -> None:
    log, stream = await begin()
    await stream.artifact("Report", "text", File(b"A", "a.txt"), description="D", last_chunk=False)
    await stream.artifact("Report", {"n": 1}, append=True, metadata={"m": 2})
    first, second = (packet.p for packet in await packets(log, stream.stream_id))
    assert first == {
        "type": "ARTIFACT",
        "data": {
            "artifactId": "Report",
            "name": "Report",
            "parts": [
                {"text": "text"},
                {"raw": "QQ==", "filename": "a.txt", "mediaType": "text/plain"},
            ],
            "append": False,
            "lastChunk": False,
            "description": "D",
        },
    }
    assert second["data"]["append"]
    assert second["data"]["lastChunk"]
    assert second["data"]["metadata"] == {"m": 2}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "input_required"),
        ({"auth": False}, "input_required"),
        ({"auth": True}, "auth_required"),
    ],
)
@aio
async def test_a_question_is_text_and_ends_the_stream(options: dict[str, Any], reason: str) -> None:
    log, stream = await begin()
    await stream.ask("Where to?", **options)
    question, text, close = await packets(log, stream.stream_id)
    assert (question.op, question.p) == (
        "EVENT",
        {"type": "QUESTION", "data": {"question": "Where to?"}},
    )
    assert (text.op, text.p) == ("DELTA", "Where to?")
    assert (close.op, close.p) == ("CLOSE", {"reason": reason, "question": "Where to?"})
    with pytest.raises(StreamEnded):
        await stream.write("more")


@aio
async def test_a_refused_request_ends_with_an_error() -> None:
    log, stream = await begin()
    await stream.reject("Not on Sundays.")
    [error] = await packets(log, stream.stream_id)
    assert (error.p.code, error.p.message, error.p.severity) == (
        "rejected",
        "Not on Sundays.",
        "FATAL",
    )


@aio
async def test_a_message_is_the_only_answer() -> None:
    log, stream = await begin()
    await stream.message("Hi, ", {"a": 1}, "you.")
    text, close = await packets(log, stream.stream_id)
    assert text.p == "Hi, you."
    parts = [{"text": "Hi, "}, {"data": {"a": 1}}, {"text": "you."}]
    assert close.p == {"reason": "message", "parts": parts}


@aio
async def test_a_message_after_something_else_is_refused() -> None:
    _, stream = await begin()
    await stream.write("a")
    with pytest.raises(RuntimeError, match="first and only"):
        await stream.message("Hi.")


# Reports: tool calls and usage.


async def reports(log: MemoryStreamLog, stream: AgentStream) -> list[tuple[str, Any]]:
    """Return the types and data of the events; each has the keys of a presentation event."""
    events = [packet.p for packet in await packets(log, stream.stream_id)]
    assert all(sorted(event) == ["data", "id", "timestamp", "type"] for event in events)
    assert len({event["id"] for event in events}) == len(events)
    return [(event["type"], event["data"]) for event in events]


@aio
async def test_a_tool_call_and_its_result() -> None:
    log, stream = await begin()
    call_id = await stream.tool_call("find", {"city": "Rome", "date": None})
    assert str(UUID(call_id)) == call_id
    await stream.tool_result(call_id, {"sky": ["blue", None]})
    assert await stream.tool_call("find", [1], "own", turn=2) == "own"
    await stream.tool_result("own", "no answer", is_error=True, name="find", turn=2, seconds=0.5)
    call = {"call_id": call_id, "name": "find", "arguments": {"city": "Rome", "date": None}}
    result = {"call_id": call_id, "result": {"sky": ["blue", None]}, "is_error": False}
    second = {"turn": 2, "call_id": "own", "name": "find"}
    failed = {**second, "result": "no answer", "is_error": True, "seconds": 0.5}
    assert await reports(log, stream) == [
        ("TOOL_CALL", call),
        ("TOOL_RESULT", result),
        ("TOOL_CALL", {**second, "arguments": [1]}),
        ("TOOL_RESULT", failed),
    ]


@aio
async def test_each_call_has_another_id() -> None:
    _, stream = await begin()
    assert len({await stream.tool_call("find", {}) for _ in range(3)}) == 3


@aio
async def test_usage() -> None:
    log, stream = await begin()
    await stream.usage(prompt_tokens=1, completion_tokens=2)
    known = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 8, "cost_estimate": 0.5}
    more = {"cached_tokens": 1, "cache_write_tokens": 2, "reasoning_tokens": 3, "turns": 2}
    about = {"model": "m", "finish_reason": "stop", "estimated": True, "filtered": True}
    everything: dict[str, Any] = {**known, **more, **about}
    await stream.usage(**everything)
    few = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost_estimate": None}
    assert await reports(log, stream) == [("USAGE", few), ("USAGE", everything)]


@aio
async def test_readers_can_parse_reports() -> None:
    log, stream = await begin()
    call_id = await stream.tool_call("find", None)
    await stream.tool_result(call_id, None)
    await stream.usage(prompt_tokens=0, completion_tokens=0, model="m", cost_estimate=0)
    found = [report_of(packet.p) for packet in await packets(log, stream.stream_id)]
    assert found == [
        ToolCallReport(call_id=call_id, name="find", arguments=None),
        ToolResultReport(call_id=call_id, result=None),
        UsageReport(
            prompt_tokens=0, completion_tokens=0, total_tokens=0, cost_estimate=0, model="m"
        ),
    ]


@aio
async def test_a_report_has_the_value_at_the_time_of_the_call() -> None:
    log, stream = await begin()
    given: dict[str, Any] = {"tags": {"a"}, "when": UUID(int=1)}
    await stream.tool_call("find", given, "a")
    given["tags"].add("b")
    [(_, data)] = await reports(log, stream)
    assert data["arguments"] == {"tags": ["a"], "when": str(UUID(int=1))}


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
COUNTS = {"prompt_tokens": 1, "completion_tokens": 2}
CALL = {"name": "find", "arguments": {}}
RESULT = {"call_id": "a", "value": 1}


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("tool_call", {**CALL, "name": ""}, "name must be text that is not empty, got ''"),
        ("tool_call", {**CALL, "name": None}, "name must be text that is not empty, got None"),
        ("tool_call", {**CALL, "id": ""}, "id must be text that is not empty, got ''"),
        ("tool_call", {**CALL, "id": 7}, "id must be text that is not empty, got 7"),
        ("tool_call", {**CALL, "turn": -1}, "turn must be a whole number, 0 or more, got -1"),
        (
            "tool_call",
            {**CALL, "arguments": object()},
            "arguments must be JSON, got a value of type object",
        ),
        (
            "tool_call",
            {**CALL, "arguments": CYCLE},
            "arguments must be JSON, got a value of type list",
        ),
        ("tool_result", {**RESULT, "call_id": ""}, "call_id must be text that is not empty"),
        ("tool_result", {**RESULT, "call_id": UUID(int=1)}, "call_id must be text"),
        ("tool_result", {**RESULT, "value": b"\xff"}, "value must be JSON"),
        ("tool_result", {**RESULT, "value": "\ud800"}, "value must be JSON"),
        ("tool_result", {**RESULT, "is_error": 1}, "is_error must be True or False, got 1"),
        ("tool_result", {**RESULT, "name": ""}, "name must be text that is not empty"),
        ("tool_result", {**RESULT, "seconds": -0.5}, "seconds must be a number, 0 or more"),
        ("usage", {**COUNTS, "prompt_tokens": -1}, "prompt_tokens must be a whole number"),
        ("usage", {**COUNTS, "completion_tokens": 1.0}, "completion_tokens must be a whole number"),
        ("usage", {**COUNTS, "total_tokens": True}, "total_tokens must be a whole number"),
        ("usage", {**COUNTS, "cached_tokens": "1"}, "cached_tokens must be a whole number"),
        ("usage", {**COUNTS, "cache_write_tokens": -1}, "cache_write_tokens must be a whole"),
        ("usage", {**COUNTS, "reasoning_tokens": -1}, "reasoning_tokens must be a whole number"),
        ("usage", {**COUNTS, "cost_estimate": float("inf")}, "cost_estimate must be a number"),
        ("usage", {**COUNTS, "cost_estimate": float("nan")}, "cost_estimate must be a number"),
        ("usage", {**COUNTS, "cost_estimate": "1"}, "cost_estimate must be a number, 0 or more"),
        ("usage", {**COUNTS, "estimated": None}, "estimated must be True or False, got None"),
        ("usage", {**COUNTS, "model": ""}, "model must be text that is not empty, got ''"),
        ("usage", {**COUNTS, "turns": 0.5}, "turns must be a whole number, 0 or more, got 0.5"),
    ],
)
@aio
async def test_a_wrong_argument_of_a_report_takes_no_number(
    method: str, options: dict[str, Any], message: str
) -> None:
    log, stream = await begin()
    with pytest.raises(ArgumentError, match=f"^{message}"):
        await getattr(stream, method)(**options)
    await stream.write("a")
    assert [packet.seq for packet in await packets(log, stream.stream_id)] == [1]


@aio
async def test_a_result_that_is_too_long_for_a_packet_is_refused() -> None:
    log, stream = await begin()
    with pytest.raises(ValueError, match="a packet may have"):
        await stream.tool_result("a", "x" * 10_000_000)
    await stream.write("a")
    assert [packet.seq for packet in await packets(log, stream.stream_id)] == [1]
