"""The undocumented names of httpx2 and httpcore2 that this package uses.

httpx2 has no argument for a network backend, so it is set on the pools of clients that we create.
That needs four private names: `_transport`, `_mounts`, `_pool` and `_network_backend`.

httpx2 does not close the innermost generator of a response body that is not read to its end, which
trio reports as a leak. Closing it needs two more: `_stream` and `_httpcore_stream`.

A client does not say which proxy it uses, which `_transport_for_url` and `_proxy_url` do.
"""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .._fallback import report_fallback
from ._types import DEFAULT_PORTS

if TYPE_CHECKING:
    import httpcore2  # loaded with the first client, because it needs as long as all of ours

__all__ = [
    "close_body_with_response",
    "close_stream",
    "close_stream_async",
    "proxy_of",
    "replace_network_backends",
]

# Closing a connection, which differs between threads and event loops.


def close_stream(stream: "httpcore2.NetworkStream") -> None:
    """Close a connection and wake a thread that is reading from it."""
    # Closing a descriptor does not wake a thread that is reading from it, but `shutdown` does.
    # `socket.socket.shutdown`, because that of a TLS socket removes the object the reader uses.
    sock = stream.get_extra_info("socket")
    if isinstance(sock, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
    stream.close()


async def close_stream_async(stream: "httpcore2.AsyncNetworkStream") -> None:
    """Close a connection; its event loop wakes a task that is reading from it."""
    await stream.aclose()


def replace_network_backends(client: Any, replacement: Callable[[object], object | None]) -> bool:
    """Replace the network backends of all pools of a client, or change nothing.

    `replacement` returns the new backend for an old one, None for an unknown one. Return False if
    nothing was changed; the client then works the same, but slower.
    """
    try:
        transports = [client._transport, *client._mounts.values()]
        pools = [transport._pool for transport in transports if transport is not None]
        backends = [replacement(pool._network_backend) for pool in pools]
    except AttributeError:
        pools, backends = [], [None]
    if None in backends:
        report_fallback("the pools of httpx2 are", "packets are read one chunk at a time, slower")
        return False
    for pool, backend in zip(pools, backends, strict=True):
        pool._network_backend = backend
    return True


def close_body_with_response(response: Any) -> None:
    """Make `aclose` of an async response close the generator of its body.

    A response without these names is left unchanged: it is that of a mock or of another transport.
    """
    stream = response.stream
    while (inner := getattr(stream, "_stream", None)) is not None:
        stream = inner
    if (body := getattr(stream, "_httpcore_stream", None)) is not None:
        stream._httpcore_stream = _ClosableBody(body)


class _ClosableBody:
    """The body of a response that also closes the generator that reads it."""

    __slots__ = ("_body", "_reader")

    def __init__(self, body: Any) -> None:
        self._body = body
        self._reader: Any = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._reader = self._body.__aiter__()
        reader: AsyncIterator[bytes] = self._reader
        return reader

    async def aclose(self) -> None:
        close_reader = getattr(self._reader, "aclose", None)
        try:
            if close_reader is not None:
                await close_reader()
        finally:
            await self._body.aclose()


def proxy_of(client: Any, request: Any) -> str | None:
    """Return the proxy that a client uses for a request, without user and password.

    None if it uses none, or if that cannot be found out.
    """
    try:
        url = client._transport_for_url(request.url)._pool._proxy_url
        host, port = url.host.decode(), url.port or DEFAULT_PORTS.get(url.scheme.decode())
        return f"{url.scheme.decode()}://{f'[{host}]' if ':' in host else host}:{port}"
    except AttributeError:  # also of a caller's own transport
        return None
