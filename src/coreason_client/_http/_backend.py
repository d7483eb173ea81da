"""The network backends of our clients: asyncio's own transports, and the chunk merger on top.

httpcore2 uses asyncio through anyio, which opens a cancel scope with a timer for every read. With
a thousand open streams that is most of the cost of a read. Here a read that finds data returns at
once, and a read that has to wait starts no timer: each connection has one timer for its
deadline. Other event loop libraries are served by the backend that this one replaces.

The backends are set on the connection pools of clients that this package creates (see
`_build`). If that is not possible, the client is left unchanged; it works the same, but slower.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

import httpcore2
import httpx2

from ._build import replace_network_backends
from ._merging_async import AsyncMergingBackend
from ._merging_sync import MergingBackend
from ._types import SocketOption

# A connection stops reading from its socket when its buffer holds more unread bytes than this.
_HIGH_WATER = 262_144
_MAX_UNSENT = 65_536


class _Buffer(asyncio.Protocol):
    """Buffers received bytes; at most one reader waits for them."""

    __slots__ = (
        "_data",
        "_deadline",
        "_ended",
        "_error",
        "_loop",
        "_paused",
        "_reader",
        "_timer",
        "_writable",
        "transport",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._writable: asyncio.Future[None] | None = None

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted, because the transports of uvloop are not instances of asyncio's classes.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > _HIGH_WATER and not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._error = exc
        self._wake()
        self.resume_writing()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # Called by the stream

    @property
    def is_readable(self) -> bool:
        """True if a read would return at once, with data or at the end of the connection."""
        return bool(self._data) or self._ended

    async def read(self, max_bytes: int, timeout: float | None) -> bytes:
        """Return the received bytes, waiting if there are none; empty at the end."""
        if not self._data and not self._ended:
            await self._wait(timeout)
        if self._data:
            return self._take(max_bytes)
        if self._error is not None:
            raise httpcore2.ReadError(str(self._error)) from self._error
        return b""

    async def drain(self, timeout: float | None) -> None:
        """Wait until the transport accepts more data."""
        if self._writable is not None:
            async with asyncio.timeout(timeout):
                await self._writable
        if self._error is not None:
            raise self._error

    def _take(self, max_bytes: int) -> bytes:
        data = bytes(self._data) if len(self._data) <= max_bytes else bytes(self._data[:max_bytes])
        del self._data[: len(data)]
        if self._paused and self.transport is not None and len(self._data) <= _HIGH_WATER // 2:
            self._paused = False
            self.transport.resume_reading()
        return data

    async def _wait(self, timeout: float | None) -> None:
        if self._reader is not None:
            raise RuntimeError("two tasks are reading from the same connection")
        self._reader = self._loop.create_future()
        self._deadline = None if timeout is None else self._loop.time() + timeout
        if self._deadline is not None:
            self._start_timer(self._deadline)
        try:
            await self._reader
        finally:
            self._reader = None

    def _start_timer(self, deadline: float) -> None:
        """Make sure that the timer fires no later than the deadline."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return  # it fires earlier and is then started again for the deadline
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._check_deadline)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _check_deadline(self) -> None:
        """Fail the current read if its deadline has passed; otherwise start the timer again."""
        self._timer = None
        if self._reader is None or self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)
        elif not self._reader.done():
            self._reader.set_exception(httpcore2.ReadTimeout())


class _AsyncioStream(httpcore2.AsyncNetworkStream):
    def __init__(self, transport: asyncio.Transport, buffer: _Buffer) -> None:
        self._transport = transport
        self._buffer = buffer
        self._unsent = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._unsent:
            # A server may respond and close before it has read the request. Then the response
            # is what matters, not the failed write.
            with suppress(httpcore2.WriteError):
                await self._flush(timeout)
        return await self._buffer.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # The head and the body of a request are written separately. Sent together, just before the
        # response is read, they take one system call, one segment and one TLS record.
        self._unsent += buffer
        if len(self._unsent) > _MAX_UNSENT:
            await self._flush(timeout)

    async def _flush(self, timeout: float | None) -> None:
        unsent, self._unsent = self._unsent, b""
        try:
            self._transport.write(unsent)
            await self._buffer.drain(timeout)
        except TimeoutError as error:
            raise httpcore2.WriteTimeout from error
        except OSError as error:
            raise httpcore2.WriteError(str(error)) from error

    async def aclose(self) -> None:
        # Not `close`, which would wait for unsent data and, under TLS, for the peer's close_notify.
        self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        buffer = _Buffer(loop)
        try:
            async with asyncio.timeout(timeout):
                transport = await loop.start_tls(
                    self._transport, buffer, ssl_context, server_hostname=server_hostname
                )
        except TimeoutError as error:
            self._transport.abort()
            raise httpcore2.ConnectTimeout from error
        except OSError as error:  # includes TLS errors
            self._transport.abort()
            raise httpcore2.ConnectError(str(error)) from error
        except BaseException:
            self._transport.abort()
            raise
        if transport is None:
            raise httpcore2.ConnectError("the connection was closed during the TLS handshake")
        buffer.connection_made(transport)
        return _AsyncioStream(transport, buffer)

    def get_extra_info(self, info: str) -> Any:
        names = {"client_addr": "sockname", "server_addr": "peername"}
        if info == "is_readable":
            return self._buffer.is_readable
        if info == "socket" and self._transport.is_closing():
            return None  # uvloop would return a descriptor that may have been reused
        return self._transport.get_extra_info(names.get(info, info))


class AsyncioBackend(httpcore2.AsyncNetworkBackend):
    """Connects through asyncio if it is running, and otherwise through the other backend."""

    def __init__(self, other: httpcore2.AsyncNetworkBackend) -> None:
        self._other = other

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        loop = _running_loop()
        if loop is None:
            return await self._other.connect_tcp(host, port, timeout, local_address, socket_options)
        local = None if local_address is None else (local_address, 0)
        try:
            async with asyncio.timeout(timeout):
                transport, buffer = await loop.create_connection(
                    lambda: _Buffer(loop),
                    host,
                    port,
                    local_addr=local,
                    **_happy_eyeballs(loop, host),
                )
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        _set_options(transport, socket_options)
        return _AsyncioStream(transport, buffer)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return await self._other.connect_unix_socket(path, timeout, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._other.sleep(seconds)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _happy_eyeballs(loop: asyncio.AbstractEventLoop, host: str) -> dict[str, Any]:
    """Return the option that races the addresses of a host; uvloop does not support it."""
    if _is_ip_address(host) or not isinstance(loop, asyncio.BaseEventLoop):
        return {}
    return {"happy_eyeballs_delay": 0.25}


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _set_options(transport: asyncio.BaseTransport, options: Iterable[SocketOption] | None) -> None:
    sock: socket.socket | None = transport.get_extra_info("socket")
    for option in options or ():
        if sock is not None:
            with suppress(OSError):
                sock.setsockopt(*option)


def merge_chunks(client: httpx2.Client | httpx2.AsyncClient) -> bool:
    """Set the merging backend on every pool of the client; return False if not possible."""
    return replace_network_backends(client, _merging_backend)


def _merging_backend(backend: object) -> MergingBackend | AsyncMergingBackend | None:
    if isinstance(backend, httpcore2.NetworkBackend):
        return MergingBackend(backend)
    if isinstance(backend, httpcore2.AsyncNetworkBackend):
        return AsyncMergingBackend(AsyncioBackend(backend))
    return None
