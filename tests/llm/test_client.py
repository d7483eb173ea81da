"""The client over real connections: limits in time and size, pooling, closing, proxies, secrets."""

import asyncio
import gc
import gzip
import importlib.abc
import importlib.machinery
import json
import logging
import sys
import threading
import types
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest
from pydantic import BaseModel

from coreason_client._clock import monotonic
from coreason_client.llm import (
    AsyncLLMClient,
    AsyncLLMStream,
    Finish,
    LLMAuthenticationError,
    LLMConnectionError,
    LLMError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
    LLMTimeoutError,
    TextDelta,
    _session_async,
    generate,
)
from coreason_client.llm._limits import RateLimits
from tests.llm.server import Provider, Received, Replied, ServerInThread, provider
from tests.ports import free_port

Result = TypeVar("Result")

KEY = "sk-very-secret-0123456789"
MESSAGES = [{"role": "user", "content": "Hello"}]
VARIABLES = ("LLM_API_KEY", "LLM_API_BASE_URL", "DEFAULT_MODEL", "AI_TIMEOUT", "MAX_RETRIES")
SSE = {"content-type": "text/event-stream"}


def answer(content: str = "Hi", **more: Any) -> Replied:
    body = {
        "choices": [{"message": {"content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        **more,
    }
    return Replied(body=json.dumps(body).encode())


def event(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


END = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def streamed(*texts: str, end: bytes = END, **options: Any) -> Replied:
    return Replied(200, SSE, chunks=[*map(event, texts), end], **options)


def held(*texts: str) -> Replied:
    """A stream that goes silent after its pieces."""
    return Replied(200, SSE, chunks=[*map(event, texts)], hold=True)


REFUSED = Replied(401, body=b'{"error": {"message": "bad key", "code": "invalid_api_key"}}')


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 30))


def client(server: Provider, **options: Any) -> AsyncLLMClient:
    return AsyncLLMClient(KEY, server.url, "m", **{"timeout": 10, "first_wait": 0.01, **options})


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for what another task will bring about soon."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it may be another thread that brings it about
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration and no proxy from outside."""
    names = [*VARIABLES, "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"]
    for name in (*names, *map(str.lower, names)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


# Time.


@pytest.mark.proves("R28", "R27c", "R27d", "AI-6B-timeout", "AI-2-timeout")
def test_a_silent_provider_is_a_timeout_after_the_retries() -> None:
    async def go() -> None:
        async with provider(Replied(silent=True)) as server:
            async with client(server, timeout=0.05, max_retries=2) as ours:
                with pytest.raises(TimeoutError) as caught:
                    await ours.generate(MESSAGES)
            assert isinstance(caught.value, LLMTimeoutError)
            assert caught.value.attempts == len(server.received) == 3

    run(go())


@pytest.mark.proves("R27d")
@pytest.mark.parametrize("whole", [True, False])
def test_an_answer_that_stops_in_the_middle_is_a_timeout(*, whole: bool) -> None:
    async def go() -> None:
        reply = Replied(chunks=[b'{"choices": '], hold=True) if whole else held("Hel", "lo")
        timeout = 0.1 if whole else 2.0  # a stream has to begin within it, on a busy machine too
        async with (
            provider(reply) as server,
            client(server, timeout=timeout, max_retries=1) as ours,
        ):
            with pytest.raises(LLMTimeoutError) as caught:
                if whole:
                    await ours.generate(MESSAGES)
                else:
                    await ours.stream(MESSAGES).result()
            partial = caught.value.partial
            assert caught.value.attempts == (2 if whole else 1)
            assert (partial and partial["data"]["content"]) == (None if whole else "Hello")
            await asyncio.wait_for(server.left.wait(), 5)

    run(go())


@pytest.mark.proves("R27d")
def test_the_timeout_is_for_the_whole_answer_however_it_drips() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
            while not reader.at_eof():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def go() -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, AsyncLLMClient(KEY, url, timeout=0.2, max_retries=0) as ours:
            with pytest.raises(LLMTimeoutError):
                await asyncio.wait_for(ours.generate(MESSAGES), 5)

    run(go())


@pytest.mark.proves("R27e")
def test_the_deadline_ends_it_all() -> None:
    async def go() -> None:
        async with provider(Replied(503)) as server:
            async with client(server, first_wait=0.05, max_retries=50, deadline=0.3) as ours:
                # The deadline passes in a wait, after a 503, or while an answer is on its way.
                with pytest.raises((LLMServerError, LLMTimeoutError)) as caught:
                    await asyncio.wait_for(ours.generate(MESSAGES), 20)
            assert 1 < caught.value.attempts < 10

    run(go())


# Connections that fail.


def test_nobody_listens() -> None:
    async def go() -> None:
        url = f"http://127.0.0.1:{free_port()}"
        async with AsyncLLMClient(KEY, url, first_wait=0.01, max_retries=2) as ours:
            with pytest.raises(ConnectionError) as caught:
                await ours.generate(MESSAGES)
            assert isinstance(caught.value, LLMConnectionError)
            assert caught.value.attempts == 3
            assert "cannot connect to 127.0.0.1" in str(caught.value)

    run(go())


def test_no_such_host() -> None:
    async def go() -> None:
        async with AsyncLLMClient(KEY, "http://nowhere.invalid", max_retries=0) as ours:
            with pytest.raises(LLMConnectionError, match=r"nowhere\.invalid"):
                await ours.generate(MESSAGES)

    run(go())


@pytest.mark.parametrize(
    "reply",
    [
        Replied(body=answer().body, cut=True),
        Replied(chunks=[answer().body[:40]], cut=True),
        Replied(chunks=[], cut=True),
        Replied(headers={"content-encoding": "gzip"}, body=b"this is not compressed"),
        Replied(body=b""),
        Replied(headers={"content-type": "text/html"}, body=b"<html>Please log in</html>"),
    ],
    ids=["length", "chunked", "nothing", "not gzip", "empty", "web page"],
)
def test_a_broken_answer_is_asked_for_again(reply: Replied) -> None:
    async def go() -> None:
        async with provider(reply, answer()) as server, client(server) as ours:
            response = await ours.generate(MESSAGES)
            assert response["data"]["content"] == "Hi"
            assert len(server.received) == 2

    run(go())


def test_a_compressed_answer() -> None:
    async def go() -> None:
        packed = Replied(headers={"content-encoding": "gzip"}, body=gzip.compress(answer().body))
        async with provider(packed) as server, client(server) as ours:
            assert (await ours.generate(MESSAGES))["data"]["content"] == "Hi"

    run(go())


def test_what_came_before_a_break_is_not_lost_to_a_slow_reader() -> None:
    async def go() -> None:
        going_on = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            writer.write(head + b"transfer-encoding: chunked\r\n\r\n")
            for piece in (event("a"), event("b") + END):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await going_on.wait()
            writer.close()  # without the end of the chunked body

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ours = AsyncLLMClient(KEY, url, max_retries=0)
        async with server, ours, ours.stream(MESSAGES) as stream:
            assert await anext(stream) == TextDelta("a")
            going_on.set()
            [response] = (await ours._session()).reading
            await until(lambda: response.content.exception() is not None)
            assert (await stream.result())["data"]["content"] == "ab"

    run(go())


def test_an_answer_of_more_than_64_mib_is_refused() -> None:
    async def go() -> None:
        piece = b" " * 1_000_000
        async with provider(Replied(chunks=[piece] * 80)) as server, client(server) as ours:
            with pytest.raises(LLMConnectionError, match="larger than 67108864 bytes") as caught:
                await ours.generate(MESSAGES)
            assert caught.value.attempts == 1
            bomb = gzip.compress(b" " * 80_000_000)
            server.replies = [Replied(headers={"content-encoding": "gzip"}, body=bomb)]
            with pytest.raises(LLMConnectionError, match="larger than"):
                await ours.generate(MESSAGES)

    run(go())


@pytest.mark.proves("AI-3-returns", "AI-5-status", "AI-5-data", "AI-5-usage", "AI-5-tool-calls")
@pytest.mark.proves("AI-6B-200", "R30e")
def test_the_printed_response_object() -> None:
    async def go() -> None:
        function = {"name": "write_file", "arguments": '{"path": "ch01.md"}'}
        call = {"id": "call_123", "type": "function", "function": function}
        message = {"content": "The generated prose...", "tool_calls": [call]}
        reply = answer(
            choices=[{"message": message, "finish_reason": "stop"}],
            usage={"prompt_tokens": 150, "completion_tokens": 200, "total_tokens": 350},
        )
        async with provider(reply) as server, client(server) as ours:
            response: Any = await ours.generate(MESSAGES, "gpt-4-turbo")
        price = response["usage"]["cost_estimate"]
        assert price == pytest.approx(150 * 10e-6 + 200 * 30e-6)
        called = {"id": "call_123", "name": "write_file", "arguments": {"path": "ch01.md"}}
        assert 0 < response.pop("seconds") < 30
        assert response == {
            "model": "gpt-4-turbo",
            "provider": "openai-compatible",
            "request_id": None,
            "status": "success",
            "data": {
                "content": "The generated prose...",
                "tool_calls": [called],
                "finish_reason": "tool_calls",
            },
            "usage": {
                "prompt_tokens": 150,
                "completion_tokens": 200,
                "total_tokens": 350,
                "cost_estimate": price,
            },
        }

    run(go())


# Pooling.


@pytest.mark.proves("AI-6A-pool", "AI-6A-session", "AI-1-stateless")
def test_one_connection_serves_many_calls() -> None:
    async def go() -> None:
        async with provider() as server, client(server, max_retries=0) as ours:
            for number in range(10):
                server.replies = [answer()]
                await ours.generate(MESSAGES)
                server.replies = [streamed(*"abc")]
                await ours.stream(MESSAGES).result()
                server.replies = [Replied(503, body=b'{"error": {"message": "busy"}}')]
                with pytest.raises(LLMServerError):
                    await ours.generate(MESSAGES)
                with pytest.raises(LLMServerError):
                    await ours.stream(MESSAGES).result()
                assert server.connections == 1, number
            session = (await ours._session())._session
            assert isinstance(session, aiohttp.ClientSession)

    run(go())


@pytest.mark.proves("AI-1-stateless", "AI-1-prompts")
def test_no_call_depends_on_an_earlier_one() -> None:
    async def go() -> None:
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello", "name": "Ann"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "Again"},
        ]
        cookie = {"set-cookie": "session=1; Path=/"}
        first = Replied(200, cookie, answer().body)
        async with provider(first, answer()) as server, client(server) as ours:
            answers = [await ours.generate(messages) for _ in range(3)]
            one, two, three = ({**found, "seconds": 0} for found in answers)
            assert one == two == three
            bodies = [sent.json for sent in server.received]
            assert bodies[0] == bodies[1] == bodies[2]
            assert bodies[0]["messages"] == messages
            assert not [sent for sent in server.received if "cookie" in sent.headers]

    run(go())


FOREIGN = (
    aiohttp.BaseConnector,  # with its connections, which come and go
    asyncio.AbstractEventLoop,
    asyncio.Task,
    importlib.abc.Loader,  # that of pytest leads to all tests
    importlib.machinery.ModuleSpec,
    logging.Logger,
    threading.Thread,
    types.CoroutineType,
    types.FrameType,
)


def is_foreign(thing: object) -> bool:
    """Return True for what the client refers to without owning it: the loop, other libraries."""
    if isinstance(thing, type | types.FunctionType | types.ModuleType):
        name = thing.__name__ if isinstance(thing, types.ModuleType) else thing.__module__
        return not str(name).startswith("coreason_client.llm")
    return isinstance(thing, FOREIGN)


def kept(ours: AsyncLLMClient) -> int:
    """Count the objects that the client and the modules behind it refer to, at any depth."""
    names = [name for name in sys.modules if name.startswith("coreason_client.llm")]
    found = {id(ours): ours, **{id(sys.modules[name]): sys.modules[name] for name in names}}
    new: list[object] = list(found.values())
    while new:
        referred = {id(thing): thing for thing in gc.get_referents(*new)}
        new = [
            thing for id_, thing in referred.items() if id_ not in found and not is_foreign(thing)
        ]
        found |= {id(thing): thing for thing in new}
    return len(found)


@pytest.mark.proves("AI-6C-not-stored")
def test_nothing_of_a_call_is_kept() -> None:
    calls = 20

    async def ask(ours: AsyncLLMClient, number: int) -> None:
        question = [{"role": "user", "content": f"question {number}"}]
        response = await ours.generate(question, "gpt-4o")
        streamed = await ours.stream(question, "gpt-4o").result()
        assert isinstance(response["usage"]["cost_estimate"], float)
        assert isinstance(streamed["usage"]["cost_estimate"], float)

    def reply(received: Received) -> Replied:
        number = received.json["messages"][0]["content"]
        return streamed(number) if "stream" in received.json else answer(number)

    async def go(server: Provider) -> None:
        server.reply = reply
        async with client(server) as ours:
            for number in range(3):
                await ask(ours, number)
            before = kept(ours)
            for number in range(calls):
                await ask(ours, 100 + number)
            assert kept(ours) - before < calls  # less than one object for each call

            before = kept(ours)  # again, since connections may have come and gone
            ours._everything = []  # type: ignore[attr-defined]
            for number in range(calls):  # the same, with a record of each call
                ours._everything.append(f"record {number}")  # type: ignore[attr-defined]
            assert kept(ours) - before >= calls

    with ServerInThread() as server:
        run(go(server))


@pytest.mark.proves("AI-3-temperature", "AI-3-max-tokens", "AI-3-model", "AI-4-messages-strict")
def test_what_is_sent_and_what_is_not() -> None:
    async def go() -> None:
        async with provider(answer()) as server, client(server) as ours:
            await ours.generate(MESSAGES, "chosen", temperature=0.25, max_tokens=7)
            [sent] = server.received
            assert sent.json["model"] == "chosen"
            assert sent.json["temperature"] == 0.25
            assert sent.json["max_tokens"] == 7
            for wrong in ({"temperature": 2.5}, {"max_tokens": 0}, {"temperature": -0.1}):
                with pytest.raises(LLMRequestError, match=next(iter(wrong))):
                    await ours.generate(MESSAGES, **wrong)
            for message in ({"role": "robot", "content": ""}, {"role": "user"}, "text"):
                with pytest.raises(LLMRequestError, match=r"messages\[0\]") as caught:
                    await ours.generate([message])  # type: ignore[list-item]
                assert caught.value.attempts == 0
            assert len(server.received) == 1

    run(go())


# Event loops.


def open_sockets() -> set[str]:
    names = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:"):
            names.add(target)
    return names


def gone(server: Provider) -> None:
    """Wait until no connection to a provider elsewhere is open."""
    run(until(lambda: server.open_connections == 0))


@pytest.mark.proves("AI-6A-session")
def test_event_loops_in_a_row() -> None:
    with ServerInThread(answer()) as server:
        before = open_sockets()
        ours = client(server)
        for _ in range(5):
            assert run(ours.generate(MESSAGES))["data"]["content"] == "Hi"
            gc.collect()
            gone(server)  # its ends of the connections are sockets of this process too
            assert open_sockets() <= before
            assert len(ours._sessions._by_loop) == 0  # closed with its loop
        gone(server)
        run(ours.aclose())


def test_the_functions_in_several_event_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerInThread(answer()) as server:
        monkeypatch.setenv("LLM_API_KEY", KEY)
        monkeypatch.setenv("LLM_API_BASE_URL", server.url)

        async def twice() -> None:
            await generate(MESSAGES)
            await generate(MESSAGES)

        for _ in range(3):
            run(twice())
        gc.collect()
        gone(server)
        assert server.connections == 3


def test_a_stream_left_behind_ends_with_its_loop() -> None:
    with ServerInThread(held("a")) as server:
        ours = client(server)

        async def leave() -> AsyncLLMStream:
            stream = ours.stream(MESSAGES)
            await anext(stream)
            return stream

        left = run(leave())
        gone(server)
        del left
        gc.collect()


def test_loops_that_are_closed_without_ceremony() -> None:
    """Only the warnings of `asyncio` about its transports appear, and no socket stays."""
    with ServerInThread(answer()) as server, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed transport", ResourceWarning)
        before = open_sockets()
        ours = client(server)
        for _ in range(4):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(ours.generate(MESSAGES))
            loop.close()
            run(until(lambda: server.open_connections <= 1))
        run(ours.aclose())
        gone(server)
        gc.collect()
        assert open_sockets() <= before


def test_loops_in_threads_at_once() -> None:
    with ServerInThread(answer()) as server:
        ours = client(server)
        found: list[Any] = []

        async def work() -> None:
            found.extend(await asyncio.gather(*(ours.generate(MESSAGES) for _ in range(5))))

        threads = [threading.Thread(target=run, args=[work()]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(found) == 20
        gone(server)
        run(ours.aclose())


# Closing and cancelling.


def test_a_closed_client() -> None:
    async def go() -> None:
        async with provider(answer()) as server:
            ours = client(server)
            await ours.generate(MESSAGES)
            await asyncio.gather(ours.aclose(), ours.aclose())
            await ours.aclose()
            await until(lambda: server.open_connections == 0)
            with pytest.raises(LLMConnectionError, match="the client is closed"):
                await ours.generate(MESSAGES)
            with pytest.raises(LLMConnectionError, match="the client is closed"):
                await ours.stream(MESSAGES).result()
            assert len(server.received) == 1

    run(go())


@pytest.mark.parametrize(
    "reply",
    [Replied(silent=True), Replied(503), held("a")],
    ids=["before the answer", "in a wait", "in a stream"],
)
def test_closing_the_client_ends_its_calls(reply: Replied) -> None:
    async def go() -> None:
        async with provider(reply) as server:
            ours = client(server, first_wait=0.05, max_retries=9)
            work = ours.stream(MESSAGES).result() if reply.hold else ours.generate(MESSAGES)
            task = asyncio.create_task(work)
            await until(lambda: len(server.received) >= 1)
            await asyncio.sleep(0.02)
            await ours.aclose()
            with pytest.raises(LLMConnectionError, match="has been closed"):
                await asyncio.wait_for(task, 5)
            await until(lambda: server.open_connections == 0)

    run(go())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("silent", [False, True])
def test_cancelling_closes_the_connection_at_once(*, stream: bool, silent: bool) -> None:
    async def go() -> None:
        reply = Replied(silent=True) if silent else held("a")
        if not stream and not silent:
            reply = Replied(chunks=[b"{"], hold=True)
        async with provider(reply) as server, client(server) as ours:
            work = ours.stream(MESSAGES).result() if stream else ours.generate(MESSAGES)
            task = asyncio.create_task(work)
            await until(lambda: len(server.received) == 1)
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(server.left.wait(), 2)
            server.replies = [answer()]
            assert (await ours.generate(MESSAGES))["data"]["content"] == "Hi"

    run(go())


def test_cancelling_at_any_moment_is_never_swallowed() -> None:
    async def go() -> None:
        async with provider(streamed(*"abcdef")) as server, client(server) as ours:
            for steps in range(60):
                task = asyncio.create_task(ours.stream(MESSAGES).result())
                for _ in range(steps):
                    await asyncio.sleep(0)
                wanted = task.cancel()  # False when it was done before
                await asyncio.wait([task])
                assert task.cancelled() == wanted
            server.replies = [answer()]
            await ours.generate(MESSAGES)
        await until(lambda: server.open_connections == 0)

    run(go())


def test_leaving_a_stream_closes_the_connection_at_once() -> None:
    async def go() -> None:
        async with provider(held("a", "b")) as server, client(server) as ours:
            stream = ours.stream(MESSAGES)
            assert await anext(stream) == TextDelta("a")
            await stream.aclose()
            await stream.aclose()
            await asyncio.wait_for(server.left.wait(), 2)
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            with pytest.raises(LLMResponseError, match="was closed before"):
                await stream.result()

    run(go())


def test_an_error_of_the_consumer_closes_the_connection() -> None:
    async def go() -> None:
        async with provider(held("a", "b")) as server, client(server) as ours:
            with pytest.raises(ZeroDivisionError):
                async with ours.stream(MESSAGES) as stream:
                    async for _ in stream:
                        raise ZeroDivisionError
            await asyncio.wait_for(server.left.wait(), 2)

    run(go())


def test_a_stream_that_is_never_read_sends_nothing() -> None:
    async def go() -> None:
        async with provider(streamed("a")) as server, client(server) as ours:
            stream = ours.stream(MESSAGES)
            await stream.aclose()
            ours.stream(MESSAGES)
            assert server.received == []

    run(go())


def test_a_stream_of_a_thousand_chunks() -> None:
    async def go() -> None:
        texts = [f"word {number} " for number in range(1000)]
        async with provider(streamed(*texts)) as server, client(server) as ours:
            async with ours.stream(MESSAGES) as stream:
                deltas = [delta async for delta in stream]
                response = await stream.result()
            assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == texts
            assert deltas[-1] == Finish("stop")
            assert response["data"]["content"] == "".join(texts)
            assert response == await stream.result()
            assert response["usage"]["estimated"]
            server.replies = [answer()]
            await ours.generate(MESSAGES)
            assert server.connections == 1

    run(go())


def test_a_connection_is_used_again_if_the_body_ends_after_its_last_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_session_async, "_END_WAIT", 10.0)  # however busy the machine is

    async def go() -> None:
        late = replace(streamed("a"), late=0.01)
        async with provider(late, late, answer()) as server, client(server) as ours:
            for _ in range(2):
                await ours.stream(MESSAGES).result()
            await ours.generate(MESSAGES)
            assert server.connections == 1

    run(go())


def test_a_body_that_does_not_end_is_not_waited_for() -> None:
    async def go() -> None:
        open_ended = replace(streamed("a"), hold=True)
        async with provider(open_ended, answer()) as server, client(server) as ours:
            async with asyncio.timeout(10):
                response = await ours.stream(MESSAGES).result()
                assert response["data"]["content"] == "a"
                await server.left.wait()
            await ours.generate(MESSAGES)
            assert server.connections == 2

    run(go())


# The client's own limits.


def test_never_more_at_once_than_allowed() -> None:
    async def go() -> None:
        async with provider(Replied(body=answer().body, slow=0.01)) as server:
            async with client(server, max_concurrency=3) as ours:
                await asyncio.gather(*(ours.generate(MESSAGES) for _ in range(20)))
                await asyncio.gather(
                    *(ours.generate(MESSAGES) for _ in range(5)),
                    *(ours.stream(MESSAGES).aclose() for _ in range(5)),
                )
            assert server.most_under_way == 3
            assert len(server.received) == 25

    run(go())


def test_a_turn_is_waited_for_no_longer_than_the_deadline() -> None:
    async def go() -> None:
        async with (
            provider(held("a")) as server,
            client(server, max_concurrency=1, deadline=1, max_retries=0) as ours,
        ):
            async with ours.stream(MESSAGES) as first:
                await anext(first)
                with pytest.raises(LLMTimeoutError, match="deadline of 1 s") as caught:
                    await asyncio.wait_for(ours.generate(MESSAGES), 5)
                assert caught.value.attempts == 0
            server.replies = [answer()]
            await ours.generate(MESSAGES)

    run(go())


def test_a_turn_is_given_back_whatever_happens() -> None:
    async def go() -> None:
        async with provider(held("a")) as server, client(server, max_concurrency=1) as ours:
            async with ours.stream(MESSAGES) as stream:
                await anext(stream)
                waiting = asyncio.create_task(ours.generate(MESSAGES))
                await asyncio.sleep(0.02)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            assert len(server.received) == 1
            server.replies = [REFUSED]
            with pytest.raises(LLMAuthenticationError):
                await ours.generate(MESSAGES)
            server.replies = [answer()]
            await asyncio.wait_for(ours.generate(MESSAGES), 5)

    run(go())


def test_requests_beyond_the_limit_of_a_minute_are_not_sent() -> None:
    async def go() -> None:
        async with (
            provider(answer()) as server,
            client(server, requests_per_minute=3, deadline=30) as ours,  # less than a minute
        ):
            calls = (ours.generate(MESSAGES) for _ in range(10))
            results = await asyncio.gather(*calls, return_exceptions=True)
            refused = [result for result in results if isinstance(result, LLMTimeoutError)]
            assert [error.attempts for error in refused] == [0] * 7
            assert len(server.received) == 3

    run(go())


def test_a_request_is_sent_when_the_minute_is_over() -> None:
    async def go() -> None:
        async with provider(answer()) as server, client(server, requests_per_minute=2) as ours:
            await asyncio.gather(*(ours.generate(MESSAGES) for _ in range(2)))
            assert ours._limits is not None
            early = monotonic() - 59.7
            aged = RateLimits(2, None)
            for _ in range(2):
                reservation = aged.reserve(0, early, 1.0)
                assert reservation is not None
                assert aged.wait(reservation, early) == 0.0
            ours._limits = aged
            await asyncio.wait_for(ours.generate(MESSAGES), 10)
            assert monotonic() >= early + 60.0
            assert len(server.received) == 3

    run(go())


# Secrets.


def everything(error: BaseException) -> Iterator[str]:
    """All that an error might show to somebody."""
    seen: BaseException | None = error
    while seen is not None:
        yield str(seen)
        yield repr(seen)
        yield from getattr(seen, "__notes__", ())
        if isinstance(seen, LLMError):
            yield from (str(value) for value in vars(seen).values())
        seen = seen.__cause__ or seen.__context__


@pytest.mark.parametrize(
    "reply",
    [
        REFUSED,
        Replied(401, body=f'{{"error": {{"message": "no such key: {KEY}"}}}}'.encode()),
        Replied(500, body=f"<pre>{KEY}</pre>".encode()),
        Replied(500, body=b"x" * 4080 + KEY.encode()),
        Replied(400, body=json.dumps({"error": {"message": "y" * 490 + KEY}}).encode()),
        Replied(200, body=f"not JSON: {KEY}".encode()),
        Replied(200, body=json.dumps({"error": {"message": KEY, "code": KEY}}).encode()),
        Replied(body=answer().body, cut=True),
        Replied(silent=True),
        Replied(200, SSE, chunks=[b'data: {"error": {"message": "' + KEY.encode() + b'"}}\n\n']),
        Replied(200, {"bad header": "x\ry"}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_key_is_shown_nowhere(
    reply: Replied, caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    async def go() -> LLMError:
        asyncio.get_running_loop().set_debug(True)
        async with provider(reply) as server:
            async with client(server, timeout=0.2, max_retries=1, first_wait=0.001) as ours:
                assert KEY not in repr(ours)
                with pytest.raises(LLMError) as caught:
                    if stream:
                        await ours.stream(MESSAGES).result()
                    else:
                        await ours.generate(MESSAGES, fallbacks=["n"])
            assert not [sent for sent in server.received if KEY in sent.path]
            return caught.value

    with caplog.at_level(logging.DEBUG):
        error = run(go())
    shown = [*everything(error), caplog.text, *(repr(record.args) for record in caplog.records)]
    assert not [text for text in shown if KEY in text]
    assert not [text for text in shown if KEY[:12] in text]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    async def go() -> None:
        async with provider(answer()) as other, provider() as server, client(server) as ours:
            server.replies = [Replied(status, {"location": f"{other.url}/v1/chat/completions"})]
            for ask in (ours.generate, lambda messages: ours.stream(messages).result()):
                with pytest.raises(LLMResponseError, match="base_url") as caught:
                    await ask(MESSAGES)
                assert (caught.value.status, caught.value.attempts) == (status, 1)
            assert other.connections == 0

    run(go())


# Proxies.


def through(proxy: Provider, received: Received) -> bool:
    return received.path.startswith("http://") and received in proxy.received


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_the_proxy_of_the_environment(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with provider(answer()) as proxy, provider(answer("direct")) as server:
            address = proxy.url.removeprefix("http://")
            monkeypatch.setenv("HTTP_PROXY", f"{scheme}{address}")
            monkeypatch.setenv("http_proxy", f"{scheme}{address}")
            async with client(server) as ours:
                assert (await ours.generate(MESSAGES))["data"]["content"] == "Hi"
            [sent] = proxy.received
            assert sent.path == f"{server.url}/v1/chat/completions"
            assert server.received == []

    run(go())


def test_a_socks_proxy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with provider(answer()) as server, client(server) as ours:
            monkeypatch.setenv("all_proxy", server.url.replace("http:", "socks5:"))
            with pytest.raises(LLMConnectionError, match="supports no SOCKS proxy"):
                await ours.generate(MESSAGES)
            assert server.received == []

    run(go())


def test_the_proxys_own_password(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with provider(answer()) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url.replace("://", "://me:pass@"))
            async with AsyncLLMClient(KEY, "http://provider.invalid/v1", "m") as ours:
                await ours.generate(MESSAGES)
            [sent] = proxy.received
            assert sent.headers["proxy-authorization"].startswith("Basic ")
            assert sent.headers["authorization"] == f"Bearer {KEY}"

    run(go())


def test_a_proxy_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with provider(answer()) as proxy, provider(answer("direct")) as server:
            monkeypatch.setenv("all_proxy", proxy.url)
            monkeypatch.setenv("no_proxy", "127.0.0.1:1")  # another port than the server's
            async with client(server) as ours:
                assert (await ours.generate(MESSAGES))["data"]["content"] == "Hi"

    run(go())


@pytest.mark.parametrize("exception", ["localhost,127.0.0.1", "{}"])
def test_no_proxy(exception: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with provider(answer()) as proxy, provider(answer("direct")) as server:
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.setenv("no_proxy", exception.format(server.url.removeprefix("http://")))
            async with client(server) as ours:
                assert (await ours.generate(MESSAGES))["data"]["content"] == "direct"
            assert proxy.connections == 0

    run(go())


def test_a_tunnel_that_the_proxy_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with provider(Replied(403)) as proxy:
            monkeypatch.setenv("https_proxy", proxy.url)
            async with AsyncLLMClient(
                KEY, "https://provider.invalid/v1", "m", max_retries=0
            ) as ours:
                with pytest.raises(LLMConnectionError) as caught:
                    await ours.generate(MESSAGES)
            assert [sent.path for sent in proxy.received] == ["provider.invalid:443"]
            assert "authorization" not in proxy.received[0].headers
            assert not [text for text in everything(caught.value) if KEY in text]

    run(go())


# What may be asked beyond the document.


class City(BaseModel):
    name: str
    people: int


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_as_a_model(*, stream: bool) -> None:
    async def go() -> None:
        async with provider() as server, client(server) as ours:

            async def ask(content: str) -> Any:
                server.replies = [streamed(content) if stream else answer(content)]
                if stream:
                    return await ours.stream(MESSAGES, response_format=City).result()
                return await ours.generate(MESSAGES, response_format=City)

            response = await ask('{"name": "Paris", "people": 2100000}')
            assert response["data"]["parsed"] == City(name="Paris", people=2_100_000)
            sent = server.received[0].json["response_format"]
            assert sent["json_schema"]["schema"] == City.model_json_schema()
            for bad in ('{"name": "Paris"}', "Paris has many people"):
                with pytest.raises(LLMResponseError, match="see `body`") as caught:
                    await ask(bad)
                assert (caught.value.body, caught.value.attempts) == (bad, 1 if stream else 2)

    run(go())


def test_images_and_extra_fields() -> None:
    async def go() -> None:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        content = [{"type": "text", "text": "What is it?"}, image]
        async with provider(answer()) as server, client(server) as ours:
            await ours.generate(
                [{"role": "user", "content": content}],
                extra={"seed": 7, "temperature": 0},
                stop="\n",
            )
            sent = server.received[0].json
            assert sent["messages"] == [{"role": "user", "content": content}]
            assert (sent["seed"], sent["temperature"], sent["stop"]) == (7, 0, ["\n"])
            bad = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}
            with pytest.raises(LLMRequestError, match=r"messages\[0\]\.content\[0\]"):
                await ours.generate([{"role": "user", "content": [bad]}])
            with pytest.raises(LLMRequestError, match="cannot be encoded as JSON"):
                await ours.generate(MESSAGES, extra={"what": object()})

    run(go())


@pytest.mark.proves("AI-6C-cost")
def test_a_fallback_over_the_wire() -> None:
    async def go() -> None:
        async with provider() as server, client(server, max_retries=1) as ours:

            def reply(received: Received) -> Replied:
                return answer() if received.json["model"] == "gpt-4o" else Replied(503)

            server.reply = reply
            response = await ours.generate(MESSAGES, "first", fallbacks=["second", "gpt-4o"])
            assert response["model"] == "gpt-4o"
            assert isinstance(response["usage"]["cost_estimate"], float)
            asked = [sent.json["model"] for sent in server.received]
            assert asked == ["first", "first", "second", "second", "gpt-4o"]
            with pytest.raises(LLMRequestError, match="fallbacks"):
                await ours.generate(MESSAGES, fallbacks="gpt-4o")

    run(go())


def test_a_hint_of_a_wait_is_honoured_on_the_wire() -> None:
    async def go() -> None:
        busy = Replied(429, {"retry-after-ms": "150", "retry-after": "9"})
        async with provider(busy, answer()) as server, client(server) as ours:
            start = asyncio.get_running_loop().time()
            await ours.generate(MESSAGES)
            assert 0.15 <= asyncio.get_running_loop().time() - start < 5
            server.replies = [Replied(429, {"retry-after": "3600"})]
            with pytest.raises(LLMRateLimitError) as caught:
                await ours.generate(MESSAGES)
            assert (caught.value.retry_after, caught.value.attempts) == (3600.0, 1)

    run(go())


# Many at once.


@contextmanager
def many_files() -> Iterator[None]:
    """A thousand connections have two thousand ends here."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@asynccontextmanager
async def no_task_left() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    await until(lambda: asyncio.all_tasks() <= before)


def test_a_thousand_calls_at_once() -> None:
    sent = 0

    def reply(received: Received) -> Replied:
        nonlocal sent
        sent += 1
        if sent % 10 == 3:
            return Replied(
                429, body=b'{"error": {"message": "busy", "code": "rate_limit_exceeded"}}'
            )
        if sent % 20 == 7:
            return Replied(body=answer().body, cut=True)
        return answer(received.json["messages"][0]["content"])

    async def go() -> None:
        before = open_sockets()
        async with no_task_left(), provider() as server:
            server.reply = reply
            async with client(server, timeout=30, max_retries=4) as ours:
                outcomes = await asyncio.gather(
                    *(ours.generate([{"role": "user", "content": f"n{n}"}]) for n in range(1000)),
                    return_exceptions=True,
                )
            await until(lambda: server.open_connections == 0)
            answered = 0
            for number, outcome in enumerate(outcomes):
                if isinstance(outcome, BaseException):
                    assert isinstance(outcome, LLMError), repr(outcome)
                else:
                    assert outcome["data"]["content"] == f"n{number}"
                    answered += 1
            assert answered > 950
            assert len(server.received) >= 1000 + 100 + 50
        await until(lambda: open_sockets() <= before)

    with many_files():
        run(go())


def test_a_client_that_is_dropped_in_a_running_loop_is_silent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def ask(url: str) -> None:
        await AsyncLLMClient(KEY, url).generate(MESSAGES, "m")

    async def main() -> int:
        async with provider(answer()) as server:
            await ask(server.url)
            gc.collect()
            await until(lambda: server.open_connections == 0)
            return server.connections

    assert run(main()) == 1
    gc.collect()
    assert capsys.readouterr().err == ""


def test_an_answer_goes_on_with_the_conversation() -> None:
    async def main() -> list[str]:
        async with provider(answer()) as server, client(server) as ours:
            response = await ours.generate(MESSAGES, "m")
            turn = {"role": "assistant", **response["data"]}
            await ours.generate([*MESSAGES, turn, *MESSAGES], "m")
            return [message["role"] for message in server.received[-1].json["messages"]]

    assert run(main()) == ["user", "assistant", "user"]
