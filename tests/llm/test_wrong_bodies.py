"""A success whose body is not an answer: the same error from all four calls."""

import asyncio
import gzip
from collections.abc import Callable
from typing import Any

import pytest

from coreason_client.llm import AsyncLLMClient, LLMClient, LLMError, LLMResponseError
from tests.llm.server import Provider, Replied, ServerInThread

MESSAGES = [{"role": "user", "content": "Hello"}]
OPTIONS: dict[str, Any] = {"max_retries": 0, "timeout": 10}
ANSWER = b'{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}'
JSON, SSE = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
GZIP = {"content-encoding": "gzip"}
NO_OBJECT, NO_CHOICES = "the body is not a JSON object", "the answer has no choices"
DAMAGED = "the body cannot be decompressed"


def generate(url: str) -> object:
    with LLMClient("a-key-of-tests", url, "m", **OPTIONS) as client:
        return client.generate(MESSAGES)


def stream(url: str) -> object:
    with LLMClient("a-key-of-tests", url, "m", **OPTIONS) as client, client.stream(MESSAGES) as got:
        return list(got)


async def generate_async(url: str) -> object:
    async with AsyncLLMClient("a-key-of-tests", url, "m", **OPTIONS) as client:
        return await client.generate(MESSAGES)


async def stream_async(url: str) -> object:
    async with (
        AsyncLLMClient("a-key-of-tests", url, "m", **OPTIONS) as client,
        client.stream(MESSAGES) as got,
    ):
        return [delta async for delta in got]


CALLS: list[Callable[[str], object]] = [
    generate,
    stream,
    lambda url: asyncio.run(generate_async(url)),
    lambda url: asyncio.run(stream_async(url)),
]


def error_of(call: Callable[[str], object], server: Provider) -> LLMError:
    with pytest.raises(LLMError) as caught:
        call(server.url)
    return caught.value


@pytest.mark.parametrize(
    ("headers", "body", "why"),
    [
        (JSON, b"", "the body is empty"),
        (JSON, b"Bad things happened", NO_OBJECT),
        ({"content-type": "text/plain"}, b"internal error\nat once", NO_OBJECT),
        (SSE, b"Bad things happened", NO_OBJECT),
        (JSON, b"<html>", "the body is a web page; check base_url"),
        (JSON, ANSWER[:-2], NO_OBJECT),
        (SSE, ANSWER[:-2], NO_OBJECT),
        (JSON, b"7", NO_OBJECT),
        (JSON, b"[1]", NO_OBJECT),
        (JSON, b'{"a": 1}', NO_CHOICES),
        (JSON, b'{"choices": 5}', NO_CHOICES),
        ({**JSON, **GZIP}, ANSWER, DAMAGED),
        ({**SSE, **GZIP}, ANSWER, DAMAGED),
        ({**JSON, **GZIP}, gzip.compress(ANSWER, mtime=0)[:-12], NO_OBJECT),
    ],
)
def test_the_same_error_from_all_calls(headers: dict[str, str], body: bytes, why: str) -> None:
    with ServerInThread(Replied(200, headers, body)) as server:
        errors = [error_of(call, server) for call in CALLS]
    assert {type(error) for error in errors} == {LLMResponseError}
    expected = f"openai-compatible sent an invalid answer for model m: {why}"
    assert {str(error) for error in errors} == {expected}
