"""The wire tables, through a real server on loopback: whole, in pieces, and cut at every event."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from coreason_client.llm import (
    AsyncLLMClient,
    AsyncLLMStream,
    Finish,
    LLMConnectionError,
    LLMError,
    LLMRequestError,
    LLMResponseError,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)
from coreason_client.llm._json import parse_or_none
from coreason_client.sse import ServerSentEvent, SSEDecoder
from tests.each import each
from tests.llm.server import Provider, Replied, provider
from tests.llm.wire import (
    anthropic,
    arguments,
    bedrock,
    citations,
    gemini,
    ollama,
    openai,
    responses,
    vertex,
)
from tests.llm.wire.case import Refused, Stream, Unary

TABLES = {
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
    "vertex": vertex,
    "ollama": ollama,
    "bedrock": bedrock,
    "responses": responses,
    "arguments": arguments,
    "citations": citations,
}
STREAM_TYPES = {
    "ollama": "application/x-ndjson",
    "bedrock": "application/vnd.amazon.eventstream",
}
KEY = "sk-test-key"
CHUNKS = (7, 97)


def cases(kind: type[Unary]) -> list[Any]:
    return [
        pytest.param(case, id=f"{name}: {case.name}")
        for name, table in TABLES.items()
        for case in table.CASES
        if type(case) is kind
    ]


def streams_of(table: Any) -> list[Stream]:
    return [case for case in table.CASES if isinstance(case, Stream) and case.events]


def cuttable() -> list[Any]:
    return [case for case in cases(Stream) if case.values[0].refused is None]


def run(served: Any) -> Any:
    return asyncio.run(asyncio.wait_for(served, 20))


def client(server: Provider, **options: Any) -> AsyncLLMClient:
    return AsyncLLMClient(KEY, server.url, max_retries=0, timeout=10, **options)


def body_of(case: Unary) -> bytes:
    if isinstance(case.reply, bytes):
        return case.reply
    return json.dumps(case.reply, separators=(",", ":")).encode()


def unary(case: Unary) -> Replied:
    return Replied(case.status, case.reply_headers, body_of(case))


def streamed(case: Stream, events: Sequence[bytes], size: int = 0, *, cut: bool = False) -> Replied:
    kind = STREAM_TYPES.get(case.model.partition("/")[0], "text/event-stream")
    body = b"".join(events)
    chunks = [body[i : i + size] for i in range(0, len(body), size)] if size else list(events)
    return Replied(case.status, {"content-type": kind, **case.reply_headers}, b"", chunks, cut)


def assert_sent(case: Unary, server: Provider) -> None:
    if not server.received:  # it was refused before it was sent
        assert case.refused is not None
        assert case.refused.kind is LLMRequestError
        return
    [sent] = server.received
    assert KEY not in sent.path
    if case.path is not None:
        assert sent.path == case.path
    for name, value in case.headers.items():
        assert sent.headers.get(name.lower()) == value
    if case.sent is not None:
        assert sent.json == case.sent


def assert_data(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    ids = [call["id"] for call in found["tool_calls"]]
    assert all(isinstance(id_, str) and id_ for id_ in ids)
    assert len(set(ids)) == len(ids)
    calls = [
        {**call, "id": "*"} if wanted["id"] == "*" else call
        for call, wanted in zip(found["tool_calls"], expected["tool_calls"], strict=False)
    ]
    assert {**found, "tool_calls": calls or found["tool_calls"]} == dict(expected)


def assert_response(case: Unary, response: Mapping[str, Any]) -> None:
    assert list(response) == [
        *("status", "data", "usage"),
        *("model", "provider", "request_id", "seconds"),
    ]
    assert response["model"] == case.model
    assert response["seconds"] > 0
    assert response["status"] == "success"
    data, usage = response["data"], dict(response["usage"])
    assert list(data)[:3] == ["content", "tool_calls", "finish_reason"]
    assert list(usage)[:3] == ["prompt_tokens", "completion_tokens", "total_tokens"]
    if case.data is not None:
        assert_data(data, case.data)
    price = usage.pop("cost_estimate")
    assert price is None or isinstance(price, float)
    if case.usage is not None:
        assert usage == case.usage
    if case.priced is not None:
        assert (price is not None) is case.priced


def assert_refused(error: BaseException, refused: Refused) -> None:
    assert type(error) is refused.kind, error
    for name, value in refused.fields.items():
        assert getattr(error, name) == value, name
    assert KEY not in str(error)
    assert KEY not in repr(error)


@pytest.mark.proves("AI-1-gateway", "AI-3-returns", "AI-5-same-shape", "AI-5-status", "AI-5-data")
@pytest.mark.proves("AI-5-tool-calls", "AI-5-usage", "AI-6B-200", "AI-3-tools")
@pytest.mark.proves("AI-3-max-tokens", "R30a")
@pytest.mark.parametrize("case", cases(Unary))
def test_an_answer(case: Unary) -> None:
    async def go() -> None:
        async with provider(unary(case)) as server, client(server, **case.client) as ours:
            asked = ours.generate(list(case.messages), case.model, **case.ask)
            if case.refused is None:
                assert_response(case, await asked)
            else:
                with pytest.raises(LLMError) as caught:
                    await asked
                assert_refused(caught.value, case.refused)
            assert_sent(case, server)

    run(go())


async def read(stream: AsyncLLMStream) -> tuple[list[Any], Any]:
    """Read a stream; return its deltas and its response, or the error that ended it."""
    deltas: list[Any] = []
    async with stream:
        try:
            async for delta in stream:
                deltas.append(delta)  # noqa: PERF401 - those before an error count too
            return deltas, await stream.result()
        except LLMError as error:
            return deltas, error


def ask(ours: AsyncLLMClient, case: Stream) -> AsyncLLMStream:
    return ours.stream(list(case.messages), case.model, **case.ask)


def assert_stream(case: Stream, deltas: list[Any], outcome: Any) -> None:
    if case.refused is not None:
        assert_refused(outcome, case.refused)
        if case.partial is not None:
            assert outcome.partial is not None
            assert outcome.partial["status"] == "partial"
            assert_data(outcome.partial["data"], _unfinished(case.partial))
        return
    assert not isinstance(outcome, LLMError), outcome
    assert_response(case, outcome)
    assert [type(delta) for delta in deltas[-2:]] == [UsageDelta, Finish]
    assert deltas[-2].usage == outcome["usage"]
    assert deltas[-1].finish_reason == outcome["data"]["finish_reason"]
    if case.deltas is not None:
        assert_deltas(deltas[:-2], case.deltas)


def _unfinished(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rest of data whose end nobody knows."""
    ended = ("finish_reason", "filtered")
    kept = {key: value for key, value in data.items() if key not in ended}
    return {**kept, "content": kept["content"] or None}


def assert_deltas(found: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(found) == len(expected)
    for delta, wanted in zip(found, expected, strict=True):
        if getattr(wanted, "id", None) == "*":
            assert delta.id
            assert replace(delta, id="*") == wanted
        else:
            assert delta == wanted


@pytest.mark.proves("R22d")
@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "responses"])
def test_streams_go_through_the_shared_parser(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte of an answer is decoded by the SSE parser that CAP and A2A use, by no other."""
    case = next(case for case in TABLES[name].CASES if isinstance(case, Stream) and case.events)
    fed: list[bytes] = []
    feed = SSEDecoder.feed

    def recorded(decoder: SSEDecoder, chunk: bytes) -> list[ServerSentEvent]:
        fed.append(chunk)
        return feed(decoder, chunk)

    monkeypatch.setattr(SSEDecoder, "feed", recorded)

    async def go() -> list[Any]:
        reply = streamed(case, case.events)
        async with provider(reply) as server, client(server, **case.client) as ours:
            deltas, _ = await read(ask(ours, case))
            return deltas

    assert run(go())
    assert b"".join(fed) == b"".join(case.events)[: len(b"".join(fed))]
    assert b"".join(fed)
    monkeypatch.setattr(SSEDecoder, "feed", lambda _self, _chunk: [])
    assert run(go()) == []  # without it nothing is read


@pytest.mark.proves("AI-5-same-shape")
@pytest.mark.parametrize("case", cases(Stream))
@each("size", [0, *CHUNKS], lambda size: f"pieces of {size} bytes" if size else "whole events")
def test_a_stream(case: Stream, size: int) -> None:
    run(read_in_pieces(case, size))


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if streams_of(table)])
def test_a_stream_of_single_bytes(name: str) -> None:
    """Once for each format: the library for HTTP joins such pieces, which takes it long."""
    longest = max(streams_of(TABLES[name]), key=lambda case: len(case.events))
    run(read_in_pieces(longest, 1))


async def read_in_pieces(case: Stream, size: int) -> None:
    reply = streamed(case, case.events, size) if case.events else unary(case)
    async with provider(reply) as server, client(server, **case.client) as ours:
        assert_stream(case, *await read(ask(ours, case)))
        assert_sent(case, server)


def assert_partial(error: LLMError, deltas: Sequence[Any]) -> None:
    """An error carries exactly what was handed out."""
    if not deltas:
        assert error.partial is None
        return
    assert error.partial is not None
    data = error.partial["data"]
    written = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    thought = [delta.text for delta in deltas if isinstance(delta, ReasoningDelta)]
    assert (data["content"] or "") == "".join(written)
    assert data.get("reasoning", "") == "".join(thought)
    received = [(call["name"], call["arguments"]) for call in data["tool_calls"]]
    assert received == whole_calls(deltas)
    usage = error.partial["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens"] > 0  # estimated, where the provider had not counted yet


def whole_calls(deltas: Sequence[Any]) -> list[tuple[str, Any]]:
    """The calls among deltas whose arguments are complete JSON objects, by their index."""
    pieces: dict[int, list[ToolCallDelta]] = {}
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            pieces.setdefault(delta.index, []).append(delta)
    calls = []
    for _, parts in sorted(pieces.items()):
        written = "".join(part.arguments for part in parts)
        if parts[0].name == citations.CUSTOM_TOOL:  # nobody knows if text is complete
            continue
        with suppress(ValueError):
            arguments = json.loads(written or "{}", strict=False)
            calls.append((parts[0].name or "", arguments))
    return calls


def is_part_of_json(event: bytes) -> bool:
    return event.lstrip()[:1] == b"{" and parse_or_none(event) is None


@pytest.mark.parametrize("case", cuttable())
@each("clean", [True, False], lambda clean: "clean end" if clean else "broken")
def test_a_stream_cut_after_every_event(case: Stream, *, clean: bool) -> None:
    async def go() -> None:
        async with provider() as server, client(server, **case.client) as ours:
            for position in range(len(case.events)):
                server.replies = [streamed(case, case.events[:position], cut=not clean)]
                deltas, outcome = await read(ask(ours, case))
                complete = position >= case.complete_after
                if complete and (clean or not isinstance(outcome, LLMError)):
                    assert not isinstance(outcome, LLMError), (position, outcome)
                    continue
                # A body that ended well, and is a part of a JSON value, is not an answer.
                is_cut_json = any(map(is_part_of_json, case.events[:position]))
                expected = LLMResponseError if clean and is_cut_json else LLMConnectionError
                assert type(outcome) is expected, position
                assert_partial(outcome, deltas)

    run(go())
