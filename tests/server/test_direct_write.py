"""Chunks that are written straight to the transport look as if they had been sent."""

import asyncio
import json
import socket
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server.http import _sse_response as response
from coreason_client.server.http._direct_write import SEND, direct_writer
from coreason_manifest.definitions.service import ServiceRequest

from .peer import envelope

WORDS = ["one ", "two ", "three ", "x" * 5000]
PARSERS = ["h11", "httptools"]


async def speak(request: ServiceRequest, stream: AgentStream) -> None:
    for word in WORDS:
        await stream.write(word)
        await asyncio.sleep(0.03)


def exchange(port: int, version: str = "1.1") -> bytes:
    body = json.dumps(envelope("hi")).encode()
    head = (
        f"POST /assist HTTP/{version}\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    received = b""
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(head.encode() + body)
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
    """What was written directly."""
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
