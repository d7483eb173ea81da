"""Connections that never finish their request, as many as the system allows."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

MOST = 10_000
_SPARE = 2_000  # descriptors that everything else needs
_AT_ONCE, _BETWEEN = 250, 0.1  # opened slowly: accepting 10,000 connections takes seconds
_DRIBBLERS = 200
_HEAD = b"POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
# The part of a request that is sent: nothing, half a head, or a head and half a body.
SILENT = (b"", _HEAD)
BEGINNINGS = (*SILENT, _HEAD + b'Content-Length: 900\r\n\r\n{"request_id":')


def affordable(descriptors: int) -> int:
    """Return the number of connections that a limit of descriptors allows."""
    return max(0, min(MOST, descriptors - _SPARE))


@asynccontextmanager
async def half_open(
    port: int, number: int, beginnings: Sequence[bytes] = BEGINNINGS
) -> AsyncIterator[list[socket.socket]]:
    """Hold a number of connections to a port open; some of them send one byte per second."""
    socks: list[socket.socket] = []
    try:
        for start in range(0, number, _AT_ONCE):
            turns = range(start, min(start + _AT_ONCE, number))
            begun = await asyncio.gather(
                *(_begin(port, beginnings[turn % len(beginnings)]) for turn in turns),
                return_exceptions=True,
            )
            await asyncio.sleep(_BETWEEN)
            socks += [sock for sock in begun if isinstance(sock, socket.socket)]
        dribble = asyncio.ensure_future(_dribble(socks[1 : 3 * _DRIBBLERS : 3]))
        try:
            yield socks
        finally:
            dribble.cancel()
            await asyncio.wait({dribble})
    finally:
        for sock in socks:
            sock.close()


def still_open(sock: socket.socket) -> bool:
    """Return True if the other side has neither closed the connection nor answered."""
    try:
        sock.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


async def _begin(port: int, beginning: bytes) -> socket.socket:
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.sock_sendall(sock, beginning)
    except BaseException:
        sock.close()
        raise
    return sock


async def _dribble(socks: list[socket.socket]) -> None:
    """Send the head of each request so slowly that it never ends."""
    loop = asyncio.get_running_loop()
    while True:
        for sock in socks:
            with suppress(OSError):  # the server may have closed it
                await loop.sock_sendall(sock, b"x")
        await asyncio.sleep(1)
