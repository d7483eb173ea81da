"""The chunk merger as an async network backend of httpcore2."""

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2

from .. import _ownership
from ._build import close_stream_async
from ._merge import ChunkMerger
from ._types import SocketOption, seconds_left

_READ_BYTES = 65_536


class AsyncMergingStream(httpcore2.AsyncNetworkStream):
    """A connection that merges the chunks of its responses."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._merger = ChunkMerger()
        self._unread = b""  # bytes of a body that h11 has to read
        self._failure: Exception | None = None
        self._ended = False
        _ownership.register(self)

    def after_fork(self) -> None:
        """Drop the connection of the parent process."""
        _ownership.detach_socket(self._stream.get_extra_info("socket"))

    @property
    def response_complete(self) -> bool:
        """True if the whole response has arrived."""
        return self._merger.response_complete

    async def read_body(self, timeout: float | None) -> bytes:
        """Return more of the body without its framing; empty if h11 has to read the rest."""
        try:
            while self._merger.in_body and not self._ended:
                data = await self._stream.read(_READ_BYTES, seconds_left(timeout))
                self._ended = not data  # not every stream may be read after its end
                body, rest = self._merger.unframe(data)
                self._unread += rest
                if body:
                    return body
        except Exception as error:  # noqa: BLE001 - the next `read` raises it, within httpx2
            self._failure = error
        return b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._unread:
            unread, self._unread = self._unread, b""
            return unread
        if self._ended:
            return b""
        while data := await self._stream.read(max_bytes, seconds_left(timeout)):
            if merged := self._merger.receive(data):
                return merged
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._merger.request_sent(buffer)
        await self._stream.write(buffer, seconds_left(timeout))

    async def aclose(self) -> None:
        await close_stream_async(self._stream)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        left = seconds_left(timeout)
        stream = await self._stream.start_tls(ssl_context, server_hostname, left)
        return AsyncMergingStream(stream)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class AsyncMergingBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections with another backend and merges the chunks of their responses."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        left = seconds_left(timeout)
        return AsyncMergingStream(
            await self._backend.connect_tcp(host, port, left, local_address, socket_options)
        )

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return AsyncMergingStream(
            await self._backend.connect_unix_socket(path, timeout, socket_options)
        )

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)
