"""The chunk merger as a network backend of httpcore2, sync and async.

It is set on the pools of a client that we made (see `_internals`). If that is not possible, nothing
is changed and the client works as it is, only slower.
"""

import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import httpcore2
import httpx2

from .. import _fork
from ._asyncio import AsyncioBackend
from ._internals import replace_network_backends
from ._merge import ChunkMerger
from ._types import SocketOption

__all__ = ["merge_chunks"]

_READ_BYTES = 65_536


def merge_chunks(client: httpx2.Client | httpx2.AsyncClient) -> bool:
    """Put the merging backend under every pool of the client; False if that is not possible."""
    return replace_network_backends(client, _merging)


def _merging(backend: object) -> "_MergingBackend | _AsyncMergingBackend | None":
    if isinstance(backend, httpcore2.NetworkBackend):
        return _MergingBackend(backend)
    if isinstance(backend, httpcore2.AsyncNetworkBackend):
        return _AsyncMergingBackend(AsyncioBackend(backend))
    return None


class _MergingStream(httpcore2.NetworkStream):
    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream
        self._merger = ChunkMerger()
        self._unread = b""  # of a body, for h11
        self._failure: Exception | None = None
        self._ended = False
        _fork.register(self)

    def after_fork(self) -> None:
        """Leave the connection to the parent process."""
        _fork.disconnect(self._stream.get_extra_info("socket"))

    @property
    def response_is_over(self) -> bool:
        return self._merger.is_over  # what is unread then waits for nothing

    def read_body(self, timeout: float | None) -> bytes:
        """Return more of the body without its framing; empty when h11 has to read on."""
        try:
            while self._merger.in_body and not self._ended:
                data = self._stream.read(_READ_BYTES, timeout)
                self._ended = not data  # not every kind of stream can be asked again
                body, rest = self._merger.unframe(data)
                self._unread += rest
                if body:
                    return body
        except Exception as error:  # noqa: BLE001 - raised by the next read, through all of httpx2
            self._failure = error
        return b""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._unread:
            unread, self._unread = self._unread, b""
            return unread
        if self._ended:
            return b""
        while data := self._stream.read(max_bytes, timeout):
            if merged := self._merger.receive(data):
                return merged
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._merger.sent(buffer)
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        # Closing a descriptor does not wake a thread that is reading from it; this does. The
        # plain socket's method, because that of a TLS socket takes the reader's object away.
        sock = self._stream.get_extra_info("socket")
        if isinstance(sock, socket.socket):
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        return _MergingStream(self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _MergingBackend(httpcore2.NetworkBackend):
    def __init__(self, backend: httpcore2.NetworkBackend) -> None:
        self._backend = backend

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.NetworkStream:
        return _MergingStream(
            self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        )

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.NetworkStream:
        return _MergingStream(self._backend.connect_unix_socket(path, timeout, socket_options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class _AsyncMergingStream(httpcore2.AsyncNetworkStream):
    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._merger = ChunkMerger()
        self._unread = b""  # of a body, for h11
        self._failure: Exception | None = None
        self._ended = False
        _fork.register(self)

    def after_fork(self) -> None:
        """Leave the connection to the parent process."""
        _fork.disconnect(self._stream.get_extra_info("socket"))

    @property
    def response_is_over(self) -> bool:
        return self._merger.is_over  # what is unread then waits for nothing

    async def read_body(self, timeout: float | None) -> bytes:
        """Return more of the body without its framing; empty when h11 has to read on."""
        try:
            while self._merger.in_body and not self._ended:
                data = await self._stream.read(_READ_BYTES, timeout)
                self._ended = not data  # not every kind of stream can be asked again
                body, rest = self._merger.unframe(data)
                self._unread += rest
                if body:
                    return body
        except Exception as error:  # noqa: BLE001 - raised by the next read, through all of httpx2
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
        while data := await self._stream.read(max_bytes, timeout):
            if merged := self._merger.receive(data):
                return merged
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._merger.sent(buffer)
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _AsyncMergingStream(stream)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _AsyncMergingBackend(httpcore2.AsyncNetworkBackend):
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
        return _AsyncMergingStream(
            await self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        )

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _AsyncMergingStream(
            await self._backend.connect_unix_socket(path, timeout, socket_options)
        )

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)
