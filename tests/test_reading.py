"""Streams of all clients that are read or closed from another event loop or thread."""

import asyncio
import gc
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client import A2AClient, AsyncA2AClient, AsyncCAPClient, CAPClient
from coreason_client.a2a.streams import EventStream
from coreason_client.a2a.types import Message, Part, Role
from coreason_client.cap.errors import CAPConnectionError
from coreason_client.errors import CoreasonError
from coreason_client.llm import AsyncLLMClient, LLMClient, LLMError
from coreason_client.server import A2A, AgentApp, AgentStream, running
from coreason_client.testing._loopback import HTTPRequest, LoopbackServer, ResponseWriter
from coreason_manifest.definitions.service import ServiceRequest
from tests.cap.test_bookmark import make_request

LIMIT = 20.0
WORDS = [f"{number} " for number in range(12)]
TEXT = "".join(WORDS)
PAUSE = 0.05

CONTINUED = {
    "chat": "resume() and its bookmark()",
    "assist": "resume() and its bookmark()",
    "a2a": "resubscribe() and its task_id",
    "generate": "",
}


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    for word in WORDS:
        await stream.write(word)
        await asyncio.sleep(PAUSE)


async def model(request: HTTPRequest, response: ResponseWriter) -> None:
    await response.start(200, [("content-type", "text/event-stream")])
    for word in WORDS:
        delta = {"choices": [{"index": 0, "delta": {"content": word}}]}
        await response.send(f"data: {json.dumps(delta)}\n\n".encode())
        await asyncio.sleep(PAUSE)
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    await response.send(f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode())
    await response.finish()


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    """Return the URLs of an agent and of a model, which both send a word from time to time."""
    models = LoopbackServer(model, "slow-model")
    with running(AgentApp(agent, a2a=A2A(), drain_timeout=0.1)) as server:
        models.start()
        try:
            yield server.url, models.url
        finally:
            models.stop()


def opener(kind: str, urls: tuple[str, str], *, sync: bool = False) -> tuple[Any, Any]:
    """Return a client, and what opens a stream with it."""
    url, model_url = urls
    client: Any
    if kind == "generate":
        llm = LLMClient if sync else AsyncLLMClient
        client = llm(api_key="k", base_url=model_url, provider="openai", default_model="m")
        return client, lambda: client.stream([{"role": "user", "content": "x"}])
    if kind == "a2a":
        client = A2AClient.connect(url) if sync else asyncio.run(AsyncA2AClient.connect(url))
        return client, lambda: client.send_message_stream("x")
    client = CAPClient(url, "k") if sync else AsyncCAPClient(url, "k")
    return client, lambda: client.chat("x") if kind == "chat" else client.assist(make_request())


async def read_one(stream: Any) -> Any:
    async with asyncio.timeout(LIMIT):
        return await anext(stream)


async def read_until_elsewhere(stream: Any) -> None:
    """Read what was received before, and then one more."""
    for _ in range(100):
        await read_one(stream)


KINDS = pytest.mark.parametrize("kind", CONTINUED)


@KINDS
def test_a_stream_that_is_read_in_another_loop_says_so_and_goes_on_in_its_own(
    kind: str, urls: tuple[str, str]
) -> None:
    client, open_stream = opener(kind, urls)

    async def begin() -> Any:
        stream = open_stream()
        await read_one(stream)
        return stream

    async def rest(stream: Any) -> int:
        return len([item async for item in stream])

    with asyncio.Runner() as own, asyncio.Runner() as other:
        stream = own.run(begin())
        for use in (read_until_elsewhere, type(stream).aclose):
            with pytest.raises(RuntimeError, match="opened in another event loop") as caught:
                other.run(use(stream))
            assert "read and close it in that loop" in str(caught.value)
            assert CONTINUED[kind] in str(caught.value)
        assert own.run(rest(stream)) > 0
        if kind == "generate":
            assert own.run(stream.result())["data"]["content"] == TEXT
            assert other.run(stream.result())["data"]["content"] == TEXT
        elif kind != "assist":
            assert stream.text == TEXT
        assert other.run(rest(stream)) == 0  # it is complete
        other.run(stream.aclose())
        own.run(client.aclose())


@KINDS
def test_a_stream_whose_loop_is_closed_says_so(kind: str, urls: tuple[str, str]) -> None:
    client, open_stream = opener(kind, urls)

    async def begin() -> Any:
        stream = open_stream()
        await read_one(stream)
        return stream

    async def again(stream: Any) -> None:
        for _ in range(2):
            with pytest.raises(
                RuntimeError, match="opened in an event loop that is closed"
            ) as caught:
                await read_until_elsewhere(stream)
            assert "open a new stream in this loop" in str(caught.value)
            assert CONTINUED[kind] in str(caught.value)
        if kind == "generate":
            with pytest.raises(RuntimeError, match="that is closed"):
                await stream.result()
        await stream.aclose()
        # The client itself works in the new loop.
        async with asyncio.timeout(LIMIT), open_stream() as new:
            await read_one(new)
        await client.aclose()

    stream = asyncio.run(begin())
    asyncio.run(again(stream))
    del stream
    gc.collect()


def closed_while_read(stream: Any) -> list[CoreasonError]:
    """Close a stream that another thread reads; return the error that the thread has got."""
    begun, raised = threading.Event(), []

    def read() -> None:
        try:
            for _ in stream:
                begun.set()
        except CoreasonError as error:
            raised.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(LIMIT)
    stream.close()
    stream.close()
    reader.join(LIMIT)
    assert not reader.is_alive()
    stream.close()
    return raised


@KINDS
def test_a_stream_may_be_closed_while_another_thread_reads_it(
    kind: str, urls: tuple[str, str]
) -> None:
    client, open_stream = opener(kind, urls, sync=True)
    with client:
        stream = open_stream()
        raised = closed_while_read(stream)
        assert [type(error) for error in raised] == (
            [CAPConnectionError] if kind in ("chat", "assist") else []
        )
        if kind == "generate":
            with pytest.raises(LLMError, match="closed before its answer was complete"):
                stream.result()
        elif kind != "assist":
            assert TEXT.startswith(stream.text)
            assert stream.text != TEXT


@KINDS
def test_a_stream_may_be_closed_while_another_task_reads_it(
    kind: str, urls: tuple[str, str]
) -> None:
    client, open_stream = opener(kind, urls)

    async def read(stream: Any) -> None:
        async for _ in stream:
            pass

    async def main() -> None:
        stream = open_stream()
        await read_one(stream)
        reader = asyncio.create_task(read(stream))
        await asyncio.sleep(0)
        await stream.aclose()
        done, _ = await asyncio.wait([reader], timeout=LIMIT)
        assert done
        assert isinstance(reader.exception(), CAPConnectionError | None)
        await client.aclose()

    asyncio.run(main())


def test_the_stream_of_a_custom_transport_may_be_closed_while_another_thread_reads_it() -> None:
    left = threading.Event()

    def events() -> Iterator[Any]:
        try:
            for number in range(1000):
                yield Message(message_id=str(number), role=Role.AGENT, parts=[Part(text="x")])
                left.wait(0.05)
        finally:
            left.set()

    assert not closed_while_read(EventStream.of(events()))
    assert left.is_set()
