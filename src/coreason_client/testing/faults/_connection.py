"""One connection of a client to the fault server: requests are read and bytes are written."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Mapping
from typing import Final

from .._hidden import HiddenHeaders
from ._run import FaultRun, RecordedRequest

__all__ = ["Connection"]

_READ_SIZE: Final = 64 * 1024
_MAX_REQUEST: Final = 64 * 1024 * 1024
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Connection:
    """One accepted socket; only the task that serves it uses it."""

    def __init__(self, sock: socket.socket, origin: str, number: int, timeout: float) -> None:
        self.origin = origin
        self.number = number
        self.is_open = True
        self.finished = False
        self.run: FaultRun | None = None
        self._sock = sock
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()

    def attach(self, run: FaultRun) -> None:
        """Count this connection as one of the run, and no longer of the run before."""
        if run is not self.run:
            self._count(-1)
            self.run = run
            self._count(1)

    def _count(self, change: int) -> None:
        if self.run is not None:
            self.run.record.add_open(change)

    async def send(self, data: bytes) -> None:
        """Hand bytes to the kernel and let other tasks run."""
        async with asyncio.timeout(self._timeout):
            await self._loop.sock_sendall(self._sock, data)
        if self.run is not None:
            self.run.record.add_sent(len(data))
        await asyncio.sleep(0)  # sock_sendall does not yield when the kernel takes all at once

    def fin(self) -> None:
        """End our direction only, so that it can still be seen when the client closes its own."""
        if self.is_open and not self.finished:
            self.finished = True
            with contextlib.suppress(OSError):  # the client was faster
                self._sock.shutdown(socket.SHUT_WR)

    def rst(self) -> None:
        """Reset the connection."""
        if self.is_open:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.close()

    def close(self) -> None:
        """Close the socket and count it."""
        if self.is_open:
            self.is_open = False
            self._sock.close()
            self._count(-1)

    async def until_gone(self) -> None:
        """Wait until the client closes; bytes that come after our FIN are answered with RST."""
        async with asyncio.timeout(self._timeout):
            while await self._loop.sock_recv(self._sock, _READ_SIZE):
                if self.finished:
                    self.rst()
                    return

    async def read_request(self) -> RecordedRequest:
        """Read one request in full, or raise ConnectionError when the client leaves."""
        head = (await self._until(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        pairs = [line.partition(":") for line in lines]
        raw = tuple((name, value.strip()) for name, _, value in pairs)
        headers = HiddenHeaders(raw)
        body = await self._body(headers)
        return RecordedRequest(
            method=method,
            target=target,
            path="/" + target.partition("?")[0].lstrip("/").partition("/")[2],
            headers=headers,
            raw_headers=raw,
            body=body,
            origin=self.origin,
            connection=self.number,
            at=time.monotonic(),
        )

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._exactly(int(headers.get("content-length", "0")))
        body = bytearray()
        while size := int((await self._until(b"\r\n")).partition(b";")[0], 16):
            body += await self._exactly(size)
            await self._until(b"\r\n")
        while await self._until(b"\r\n"):
            pass  # trailers, up to the blank line
        return bytes(body)

    async def _until(self, mark: bytes) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            await self._receive()
        data = bytes(self._buffer[:at])
        del self._buffer[: at + len(mark)]
        return data

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._receive()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _receive(self) -> None:
        async with asyncio.timeout(self._timeout):
            data = await self._loop.sock_recv(self._sock, _READ_SIZE)
        if not data:
            raise ConnectionResetError
        self._buffer += data
        if len(self._buffer) > _MAX_REQUEST:
            raise ValueError(f"a request of more than {_MAX_REQUEST} bytes")
