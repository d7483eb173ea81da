"""Bedrock's adapter, beyond what its wire table shows."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm import (
    AsyncLLMClient,
    AWSCredentials,
    LLMClient,
    LLMConnectionError,
    LLMError,
    TextDelta,
)
from coreason_client.llm._answer import Malformed, ModelAnswer, ProviderFault
from coreason_client.llm.providers.bedrock import ADAPTER
from tests.llm.eventstream import event
from tests.llm.server import Replied, provider

MESSAGES = [{"role": "user", "content": "Hi"}]
MODEL = "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"
STREAM = {"content-type": "application/vnd.amazon.eventstream"}
FRAMES = [
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hé"}}),
    event("messageStop", {"stopReason": "end_turn"}),
    event("metadata", {"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}}),
]
BODY = b"".join(FRAMES)
AWS = AWSCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "session-token-value", "eu-west-1")


async def read(client: AsyncLLMClient) -> tuple[list[Any], Any]:
    deltas: list[Any] = []
    try:
        async with client.stream(MESSAGES, MODEL) as stream:
            async for delta in stream:
                deltas.append(delta)  # noqa: PERF401 - those before an error count
            return deltas, await stream.result()
    except LLMError as error:
        return deltas, error


ENDS = [len(b"".join(FRAMES[: count + 1])) for count in range(len(FRAMES))]
AROUND_ENDS = sorted({0, *(end + step for end in ENDS for step in (-1, 0, 1))})[:-1]


def complete_frames(position: int) -> int:
    """Return the number of complete frames among so many bytes."""
    return sum(end <= position for end in ENDS)


@pytest.mark.parametrize(
    ("positions", "clean"),
    [(range(len(BODY) + 1), False), (AROUND_ENDS, True)],
    ids=["broken", "clean end"],
)
def test_a_stream_cut_at_every_byte(positions: Sequence[int], *, clean: bool) -> None:
    """The text comes out once its frame is complete; without the end there is an error."""

    async def go() -> None:
        async with (
            provider() as server,
            AsyncLLMClient("key", server.url, max_retries=0, timeout=10) as client,
        ):
            for position in positions:
                chunks = [BODY[:position]] if position else []
                server.replies = [Replied(200, STREAM, b"", chunks, cut=not clean)]
                deltas, outcome = await read(client)
                complete = complete_frames(position)
                texts = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
                assert texts == ["Hé"] * (complete >= 1), position
                if complete == 3 or (complete == 2 and clean):
                    assert outcome["data"]["content"] == "Hé"
                    assert outcome["usage"].get("estimated", False) is (complete < 3)
                else:
                    assert type(outcome) is LLMConnectionError, (position, outcome)

    asyncio.run(asyncio.wait_for(go(), 60))


def test_an_answer_is_complete_while_its_connection_is_open() -> None:
    async def go() -> None:
        async with (
            provider(Replied(200, STREAM, chunks=[BODY], hold=True)) as server,
            AsyncLLMClient("key", server.url, max_retries=0, timeout=100) as client,
        ):
            _, outcome = await read(client)
            assert outcome["data"]["content"] == "Hé"

    asyncio.run(asyncio.wait_for(go(), 30))


def test_the_sync_client_streams_and_signs() -> None:
    """Path, body and headers arrive as they were signed: the server computes the signature too."""

    async def go() -> None:
        async with provider(Replied(200, STREAM, b"", [BODY[:100], BODY[100:]])) as server:

            def ask() -> list[Any]:
                with LLMClient(AWS, server.url) as client:
                    return list(client.stream(MESSAGES, MODEL))

            deltas = await asyncio.to_thread(ask)
            assert deltas[0] == TextDelta("Hé")
            [received] = server.received
            assert received.headers == {**received.headers, **signature(received, server.url)}
            assert AWS.secret_key not in str(received)

    asyncio.run(asyncio.wait_for(go(), 20))


def test_the_async_client_signs() -> None:
    answer = {"output": {"message": {"content": [{"text": "Hi"}]}}, "stopReason": "end_turn"}

    async def go() -> None:
        async with (
            provider(Replied(body=json.dumps(answer).encode())) as server,
            AsyncLLMClient(AWS, f"{server.url}?b=2&a=x%20y") as client,
        ):
            assert (await client.generate(MESSAGES, MODEL))["data"]["content"] == "Hi"
            [received] = server.received
            assert received.headers == {**received.headers, **signature(received, server.url)}
            assert received.headers["x-amz-security-token"] == AWS.session_token

    asyncio.run(asyncio.wait_for(go(), 20))


def signature(received: Any, url: str) -> dict[str, str]:
    """Return the headers with which AWS would accept a request, computed from what arrived."""
    from calendar import timegm
    from time import strptime

    from coreason_client.llm._sigv4 import Scope, signed_headers

    now = timegm(strptime(received.headers["x-amz-date"], "%Y%m%dT%H%M%SZ"))
    scope = Scope(AWS.access_key, AWS.secret_key, AWS.session_token, "eu-west-1", "bedrock")
    kept = {name: received.headers[name] for name in ("content-type", "host")}
    signed = signed_headers(scope, "POST", f"{url}{received.path}", kept, received.body, now)
    return {name.lower(): value for name, value in signed.items()}


# Any JSON.

KEYS = st.sampled_from(
    [
        "output", "message", "content", "text", "toolUse", "toolUseId", "name", "input", "type",
        "reasoningContent", "reasoningText", "signature", "redactedContent", "image", "source",
        "bytes", "format", "citationsContent", "stopReason", "usage", "inputTokens",
        "outputTokens", "cacheReadInputTokens", "cacheDetails", "ttl", "contentBlockIndex",
        "delta", "start", "trace", "promptRouter", "invokedModelId", "__type",
    ]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS | st.sampled_from(["coreason_json_answer", "malformed_tool_use", "1h"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, ANYTHING, max_size=6)
EVENTS = st.sampled_from(
    [b"messageStart", b"contentBlockStart", b"contentBlockDelta", b"contentBlockStop",
     b"messageStop", b"metadata", b"other", b""]
)  # fmt: skip


@given(OBJECTS)
def test_any_reply_is_an_answer_or_malformed(reply: dict[str, Any]) -> None:
    with suppress(Malformed):
        assert isinstance(ADAPTER.answer(reply), ModelAnswer)
    fault = ADAPTER.fault(reply)
    assert fault is None or isinstance(fault, ProviderFault)


@given(st.lists(st.tuples(EVENTS, ANYTHING), max_size=6))
def test_any_events_are_pieces_or_malformed(events: list[tuple[bytes, Any]]) -> None:
    reader = ADAPTER.reader()
    texts = []
    with suppress(Malformed):
        for name, value in events:
            pieces = reader.read(json.dumps(value).encode(), name)
            texts += [piece.text for piece in pieces if isinstance(piece, TextDelta)]
    answer = reader.answer()
    assert (answer.content or "") == "".join(texts)


def test_arguments_without_a_start_are_ignored() -> None:
    reader = ADAPTER.reader()
    delta = {"contentBlockIndex": 4, "delta": {"toolUse": {"input": "{}"}}}
    assert reader.read(json.dumps(delta).encode(), b"contentBlockDelta") == ()


@pytest.mark.parametrize("reply", [None, [], 7, {}, {"output": {}, "message": "not an error"}])
def test_what_is_no_fault(reply: Any) -> None:
    assert ADAPTER.fault(reply) is None
