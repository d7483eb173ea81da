"""An address that cannot be used is an error of the client's own family, wherever it came from."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from coreason_client import A2AClient, AsyncA2AClient, AsyncCAPClient, CAPClient
from coreason_client.errors import CoreasonError
from coreason_client.llm import AsyncLLMClient
from tests.each import each
from tests.http.support import one_answer

LOCATIONS: dict[str, bytes] = {
    "empty label": b"http://a..invalid/",
    "long label": b"http://" + b"a" * 70 + b".invalid/",
    "not ASCII": "http://ex\u00e4mple..invalid/".encode(),
    "not UTF-8": b"http://\xff\xfe.invalid/",
    "not IDNA": "http://\u2488.invalid/".encode(),
    "half an IPv6 address": b"//[::1",
    "half a bracket": b"http://[",
    "no IPv6 address": b"http://[xyz]/",
    "port out of range": b"http://127.0.0.1:99999999/",
    "port that is no number": b"http://127.0.0.1:port/",
    "port 0": b"http://127.0.0.1:0/",
    "user and password": b"http://user:password@127.0.0.1:9/",
    "line end": b"http://127.0.0.1:9/\rX-Injected: 1",
    "tab": b"http://127.0.0.1:9/\ta",
    "very long": b"http://127.0.0.1:9/" + b"a" * 70_000,
    "another scheme": b"file:///etc/passwd",
    "no scheme": b"javascript:alert(1)",
    "percent": b"http://%zz.invalid/%",
}
URLS = ("http://a..invalid", "http://" + "a" * 70 + ".invalid", "http://127.0.0.1:9")


def _sync(client: Any, act: Callable[[Any], Any]) -> None:
    with client, pytest.raises(CoreasonError):
        result = act(client)
        if isinstance(result, Iterator):
            for _ in result:
                pass


def _async(client: Any, act: Callable[[Any], Any]) -> None:
    async def main() -> None:
        async with client:
            with pytest.raises(CoreasonError):
                result = act(client)
                if isinstance(result, AsyncIterator):
                    async for _ in result:
                        pass
                else:
                    await result

    asyncio.run(main())


def cap_sync(url: str, act: Callable[[Any], Any]) -> None:
    _sync(CAPClient(url, "a-key-for-tests", max_retries=0), act)


def cap_async(url: str, act: Callable[[Any], Any]) -> None:
    _async(AsyncCAPClient(url, "a-key-for-tests", max_retries=0), act)


def a2a_sync(url: str, act: Callable[[Any], Any]) -> None:
    _sync(A2AClient(url, max_retries=0), act)


def a2a_async(url: str, act: Callable[[Any], Any]) -> None:
    _async(AsyncA2AClient(url, max_retries=0), act)


CALLS: dict[str, tuple[Callable[[str, Callable[[Any], Any]], None], Callable[[Any], Any]]] = {
    "cap sync chat": (cap_sync, lambda client: client.chat("hi")),
    "cap sync health": (cap_sync, lambda client: client.health()),
    "cap async chat": (cap_async, lambda client: client.chat("hi")),
    "cap async health": (cap_async, lambda client: client.health()),
    "a2a sync send": (a2a_sync, lambda client: client.send_message("hi")),
    "a2a sync stream": (a2a_sync, lambda client: client.send_message_stream("hi")),
    "a2a async send": (a2a_async, lambda client: client.send_message("hi")),
    "a2a async stream": (a2a_async, lambda client: client.send_message_stream("hi")),
}


@pytest.mark.parametrize("call", CALLS)
@each("location", LOCATIONS)
def test_a_redirect_that_cannot_be_followed(call: str, location: str) -> None:
    head = b"HTTP/1.1 307 Elsewhere\r\nContent-Length: 0\r\nConnection: close\r\nLocation: "
    fails, act = CALLS[call]
    with one_answer(head + LOCATIONS[location] + b"\r\n\r\n") as (url, _):
        fails(url, act)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("url", URLS)
def test_a_base_url_that_cannot_be_reached(call: str, url: str) -> None:
    fails, act = CALLS[call]
    fails(url, act)


@pytest.mark.parametrize("url", URLS)
def test_a_base_url_that_the_ai_client_cannot_reach(url: str) -> None:
    messages = [{"role": "user", "content": "hi"}]
    client = AsyncLLMClient("a-key-for-tests", url, max_retries=0, provider="openai")
    _async(client, lambda client: client.generate(messages, "m"))
    client = AsyncLLMClient("a-key-for-tests", url, max_retries=0, provider="openai")
    _async(client, lambda client: client.stream(messages, "m"))
