"""Accepting connections: the limit, errors of the operating system, and failed handshakes."""

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest

from coreason_client.server.process import _listen as _accept
from coreason_client.server.process._connections import Connections
from coreason_client.server.process._listen import Listener

from ..aio import aio, turns


class Protocol(asyncio.Protocol):
    """A connection that is open and waits for a request."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.forget(self)


class Sockets:
    """A listening socket whose `accept` fails with the errors of `errors` first."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.errors: list[int] = []
        self.accepts = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.accepts += 1
        if self.errors:
            number = self.errors.pop(0)
            raise OSError(number, os.strerror(number))
        return self._sock.accept()

    def fileno(self) -> int:
        return self._sock.fileno()

    def getsockname(self) -> tuple[str, int]:
        name: tuple[str, int] = self._sock.getsockname()
        return name

    def setblocking(self, flag: bool) -> None:
        self._sock.setblocking(flag)

    def close(self) -> None:
        self._sock.close()


@asynccontextmanager
async def listening(
    most: int | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Listener, Sockets, Connections]]:
    connections = Connections(most, 5.0)
    sock = Sockets(socket.create_server(("127.0.0.1", 0)))
    listener = Listener(
        cast("socket.socket", sock), lambda: Protocol(connections), connections, tls=tls
    )
    try:
        yield listener, sock, connections
    finally:
        listener.close()
        listener.close()  # once more changes nothing
        await listener.wait_closed()
        while connections.close_longest_waiting():
            pass
        await turns()
        assert listener.sockets == ()


async def connect(sock: Sockets) -> socket.socket:
    client = socket.socket()
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, sock.getsockname())
    return client


async def received(client: socket.socket) -> bytes:
    """Return what the server sends; empty if it closes the connection."""
    with client:
        try:
            return await asyncio.get_running_loop().sock_recv(client, 1)
        except ConnectionResetError:
            return b""


async def until_open(connections: Connections, number: int) -> None:
    while len(connections._open) != number:  # noqa: ASYNC110 - the socket is the operating system's
        await asyncio.sleep(0)


@aio
async def test_a_connection_reaches_its_protocol_and_a_closed_listener_keeps_it() -> None:
    async with listening() as (listener, sock, connections):
        with await connect(sock):
            await until_open(connections, 1)
            listener.close()
            await turns()
            assert len(connections) == 1


@aio
async def test_a_connection_above_the_limit_is_closed_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening(1) as (_, sock, connections):
        with await connect(sock):
            await until_open(connections, 1)
            [busy] = connections._open
            connections.mark_busy(busy)
            for _ in range(2):
                assert await received(await connect(sock)) == b""
            assert len(connections) == 1
            connections.mark_waiting(busy)  # so it can be closed for another one
    [record] = caplog.records
    assert record.getMessage() == (
        "a new connection was closed at once: 1 are open, each with a request"
    )


@pytest.mark.parametrize(
    ("number", "left"),
    [
        (errno.EMFILE, 0),
        (errno.ENFILE, 0),
        (errno.ENOBUFS, 0),
        (errno.ENOMEM, 0),
        (errno.EPERM, 2),  # as of a firewall: closing connections would not help
    ],
)
@aio
async def test_after_an_error_nothing_is_accepted_for_a_moment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, left: int
) -> None:
    monkeypatch.setattr(_accept, "_PAUSE", 3600.0)
    async with listening() as (listener, sock, connections):
        clients = [await connect(sock) for _ in range(2)]
        await until_open(connections, 2)
        sock.errors, sock.accepts = [number], 0
        clients.append(await connect(sock))
        while not sock.accepts:
            await turns()
        await turns(100)  # a busy loop would accept again and again
        assert (sock.accepts, len(connections)) == (1, left)
        assert listener._resuming is not None
        listener._resuming.cancel()
        listener._resume()
        await until_open(connections, left + 1)
        for client in clients:
            client.close()
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    message = record.getMessage()
    assert message.startswith(f"cannot accept connections: {os.strerror(number)}; {left} are open")
    assert message.endswith("; retrying")


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EINTR, errno.ECONNABORTED])
@aio
async def test_a_client_that_disconnects_early_causes_no_pause(
    caplog: pytest.LogCaptureFixture, number: int
) -> None:
    async with listening() as (_, sock, connections):
        sock.errors = [number]
        with await connect(sock):
            await until_open(connections, 1)
    assert caplog.records == []


@aio
async def test_one_turn_of_the_event_loop_accepts_a_limited_number() -> None:
    async with listening() as (listener, sock, connections):
        clients = [socket.create_connection(sock.getsockname()) for _ in range(20)]
        sock.accepts = 0
        listener._accept()  # the event loop has not run since they connected
        assert sock.accepts == 16
        await until_open(connections, 20)
        for client in clients:
            client.close()


@aio
async def test_connections_that_were_accepted_just_before_make_way_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening(2) as (listener, sock, connections):
        clients = [socket.create_connection(sock.getsockname()) for _ in range(3)]
        listener._accept()  # all three at once
        await until_open(connections, 2)
        assert await received(clients[0]) == b""
        for client in clients[1:]:
            client.close()
        assert caplog.records == []


@aio
async def test_a_failed_handshake_is_no_longer_counted(caplog: pytest.LogCaptureFixture) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    async with listening(1, tls) as (listener, sock, connections):
        client = await connect(sock)
        await asyncio.get_running_loop().sock_sendall(client, b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            while await asyncio.get_running_loop().sock_recv(client, 100):
                pass  # an alert, then the end
        client.close()
        await listener.wait_closed()
        assert len(connections) == 0
        assert caplog.records == []  # a stranger must not fill the log


@aio
async def test_the_sockets_of_an_asyncio_server_are_taken_over() -> None:
    connections = Connections(None, 5.0)

    def protocol() -> Protocol:
        return Protocol(connections)

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    [listener] = Listener.take_over(server, protocol, connections)
    assert not server.is_serving()
    assert [sock.getsockname() for sock in listener.sockets] == [address]
    with socket.create_connection(address):
        await until_open(connections, 1)
    await until_open(connections, 0)
    listener.close()
    await listener.wait_closed()
