"""The async sender: sends requests with `httpx2.AsyncClient` or with the caller's client."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx2

from .. import _ownership
from .._clock import real_seconds
from .._ownership import PerLoop
from ._build import Shards, client_options
from ._checks import check_http_client, socks_needs_extra
from ._response_async import AsyncResponse, open_response_async
from ._types import FailureKind, Request, TransportFailure, hide_query_async

__all__ = ["AsyncResponse", "AsyncSender"]


class AsyncSender:
    """Sends requests on the running event loop.

    `client` is the caller's own and is never closed here. Without it, a client is created for each
    event loop, because a pooled connection belongs to the loop that opened it. `authorization` is
    called for every request and returns the value of that header. A forked child starts with no
    connections.
    """

    def __init__(
        self, client: Any = None, authorization: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        check_http_client(client, is_async=True)
        self._authorization = authorization
        self._client = client
        self._caller_clients = None if client is None else Shards(lambda: client)
        self._clients: PerLoop[Shards[Any]] = PerLoop(_current_loop)
        self._closed = False
        _ownership.register(self)

    async def open(self, request: Request) -> AsyncResponse:
        """Send the request and return the response as soon as its head has arrived.

        Raises:
            TransportFailure: no response was received.
        """
        self._check_open()
        return await open_response_async(await self._shards(), request, self._authorization)

    async def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            TransportFailure: the sender was closed during the wait.
        """
        import anyio  # slow to import; the first request has imported it already

        await anyio.sleep(real_seconds(seconds))
        self._check_open()

    async def aclose(self) -> None:
        """Close this event loop's client unless it is the caller's; may be called repeatedly."""
        self._closed = True
        await self._clients.aclose()

    def after_fork(self) -> None:
        """Drop the connections of the parent process, and locks that its threads may hold."""
        _ownership.never_finalize(self._caller_clients)
        self._caller_clients = None if self._client is None else Shards(lambda: self._client)

    async def _shards(self) -> Shards[Any]:
        if self._caller_clients is not None:
            return self._caller_clients
        clients = self._clients.get()
        if clients is None:
            clients = Shards(_new_client)
            await self._clients.open(clients, partial(_close_all, clients))
        return clients

    def _check_open(self) -> None:
        if self._closed:
            raise TransportFailure(FailureKind.CLOSED, "the client was closed")


async def _close_all(clients: Shards[Any]) -> None:
    for client in clients.drain():
        await client.aclose()


def _current_loop() -> object:
    import asyncio  # slow to import; already loaded when this is called

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        # Not asyncio, so it is trio: the only other library that httpx2 supports.
        return sys.modules["trio"].lowlevel.current_trio_token()


def _new_client() -> httpx2.AsyncClient:
    from ._backend import merge_chunks  # imports httpcore2, as the first httpx2 client does

    hooks = {"request": [hide_query_async]}
    with socks_needs_extra():
        client = httpx2.AsyncClient(event_hooks=hooks, **client_options())
    merge_chunks(client)
    return client
