"""Chunks that are written straight to the transport look as if they had been sent."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server._internals import SEND, HeldHead, direct_writer
from coreason_client.server.http import _stream_response as response
from coreason_manifest.definitions.service import ServiceRequest

from ..peer import envelope

WORDS = ["one ", "two ", "three ", "x" * 5000]
PARSERS = ["h11", "httptools"]


async def speak(request: ServiceRequest, stream: AgentStream) -> None:
    for word in WORDS:
        await stream.write(word)
        await asyncio.sleep(0.03)


@contextmanager
def asked(port: int, version: str = "1.1") -> Iterator[socket.socket]:
    """A connection that has sent a request."""
    body = json.dumps(envelope("hi")).encode()
    head = (
        f"POST /assist HTTP/{version}\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(head.encode() + body)
        yield sock


def exchange(port: int, version: str = "1.1") -> bytes:
    received = b""
    with asked(port, version) as sock:
        while data := sock.recv(65536):
            received += data
    return received


def unchunked(body: bytes) -> bytes:
    """Take chunks apart, strictly."""
    parts = b""
    while True:
        size, found, rest = body.partition(b"\r\n")
        assert found
        length = int(size, 16)
        part, body = rest[:length], rest[length:]
        assert body.startswith(b"\r\n")
        body = body[2:]
        if not length:
            assert body == b""
            return parts
        parts += part


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bytes that were written directly."""
    found: list[bytes] = []

    def noting(scope: Scope) -> Any:
        if (write := direct_writer(scope)) is None:
            return None

        def note(body: bytes) -> bool:
            done = write(body)
            if done:
                found.append(body)
            return done

        return note

    monkeypatch.setattr(response, "direct_writer", noting)
    return found


@pytest.mark.parametrize("parser", PARSERS)
def test_every_packet_but_the_last_is_written_directly(parser: str, written: list[bytes]) -> None:
    with running(AgentApp(speak), http=parser) as server:
        head, _, body = exchange(server.port).partition(b"\r\n\r\n")
    assert b"chunked" in head
    events = unchunked(body).split(b"\n\n")
    assert [event.count(b"DELTA") for event in events] == [1, 1, 1, 1, 0, 0]
    assert b"CLOSE" in events[-2]
    assert sum(chunk.count(b"DELTA") for chunk in written) == len(WORDS)


@pytest.mark.parametrize("parser", PARSERS)
def test_http_1_0_has_no_chunks(parser: str, written: list[bytes]) -> None:
    with running(AgentApp(speak), http=parser) as server:
        received = exchange(server.port, version="1.0")
    if parser == "h11":  # the other one frames in chunks whoever asks, and is written to directly
        assert not written
        assert b"\r\n\r\nid: " in received
    assert received.count(b"DELTA") == len(WORDS)
    assert received.count(b"CLOSE") == 1


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_head_and_the_first_packet_are_one_segment(parser: str, loop: str) -> None:
    with running(AgentApp(speak), http=parser, loop=loop) as server, asked(server.port) as sock:
        received = sock.recv(65536)
        assert received.startswith(b"HTTP/1.1 200")
        assert received.count(b"DELTA") == 1
        while not received.endswith(b"0\r\n\r\n"):
            received += sock.recv(65536)
    assert received.count(b"HTTP/1.1") == 1
    assert unchunked(received.partition(b"\r\n\r\n")[2]).count(b"DELTA") == len(WORDS)


@pytest.mark.parametrize("parser", PARSERS)
def test_the_head_of_an_agent_that_waits_is_sent_before_its_first_packet(parser: str) -> None:
    go_on = threading.Event()

    async def wait(request: ServiceRequest, stream: AgentStream) -> None:
        await asyncio.to_thread(go_on.wait, 20)
        await stream.write("late")

    with running(AgentApp(wait), http=parser) as server, asked(server.port) as sock:
        received = sock.recv(65536)
        assert received.endswith(b"\r\n\r\n")
        assert b"DELTA" not in received
        go_on.set()
        while not received.endswith(b"0\r\n\r\n"):
            received += sock.recv(65536)
    assert unchunked(received.partition(b"\r\n\r\n")[2]).count(b"DELTA") == 1


@pytest.mark.parametrize("parser", PARSERS)
def test_an_answer_that_is_complete_at_once_has_one_head(parser: str) -> None:
    async def nothing(request: ServiceRequest, stream: AgentStream) -> None: ...

    with running(AgentApp(nothing), http=parser) as server:
        received = exchange(server.port)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.count(b"HTTP/1.1") == 1
    assert unchunked(body).count(b"CLOSE") == 1


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    return run


class _Transport:
    """Notes what is written, and is closed."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.is_lost = False

    def is_closing(self) -> bool:
        return self.is_lost

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def close(self) -> None:
        self.calls.append(b"closed")


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@in_a_loop
async def test_a_held_head_is_written_after_two_turns() -> None:
    cycle = SimpleNamespace(transport=(transport := _Transport()))
    HeldHead(cycle)
    cycle.transport.write(b"head ")
    await turns(1)
    assert transport.calls == []
    await turns(2)
    assert transport.calls == [b"head "]
    assert cycle.transport is transport
    cycle.transport.write(b"chunk")
    assert transport.calls == [b"head ", b"chunk"]


@in_a_loop
async def test_a_held_head_is_written_once_with_the_first_chunk() -> None:
    cycle = SimpleNamespace(transport=(transport := _Transport()))
    held = HeldHead(cycle)
    cycle.transport.write(b"head ")
    cycle.transport.write(b"first")
    held.write(b"second")  # of somebody who wrapped it, as a server that begins to drain does
    await turns(4)
    assert transport.calls == [b"head first", b"second"]


@in_a_loop
async def test_a_held_head_is_written_before_its_connection_is_closed() -> None:
    cycle = SimpleNamespace(transport=(transport := _Transport()))
    HeldHead(cycle)
    cycle.transport.write(b"head ")
    cycle.transport.close()
    await turns(4)
    assert transport.calls == [b"head ", b"closed"]


@in_a_loop
async def test_a_held_head_is_dropped_if_its_connection_is_lost() -> None:
    """The loop of uvloop would report an error: its transports refuse a write after their end."""
    cycle = SimpleNamespace(transport=(transport := _Transport()))
    HeldHead(cycle)
    cycle.transport.write(b"head ")
    transport.is_lost = True
    await turns(4)
    assert transport.calls == []


@in_a_loop
async def test_a_transport_that_was_wrapped_stays_wrapped() -> None:
    transport = _Transport()
    cycle = SimpleNamespace(transport=transport)
    held = HeldHead(cycle)
    held.write(b"head ")
    cycle.transport = wrapped = SimpleNamespace(write=held.write)
    await turns(4)
    assert cycle.transport is wrapped
    cycle.transport.write(b"chunk")
    assert transport.calls == [b"head ", b"chunk"]


def test_a_middleware_in_between_sees_all_chunks(written: list[bytes]) -> None:
    seen = b""

    def counting(app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            async def note(message: Any) -> None:
                nonlocal seen
                seen += message.get("body", b"")
                await send(message)

            await app(scope, receive, note if scope["type"] == "http" else send)

        return call

    with running(counting(AgentApp(speak))) as server:
        exchange(server.port)
    assert not written
    assert seen.count(b"DELTA") == len(WORDS)


def test_a_server_that_is_not_known_is_left_alone() -> None:
    class Other:
        async def send(self, message: Any) -> None: ...

    assert direct_writer({"type": "http", "method": "POST", SEND: Other().send}) is None
    assert direct_writer({"type": "http", "method": "POST"}) is None
