"""Sends requests with an `httpx2.AsyncClient`, or with a client of the caller's."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx2

from .. import _fork
from .._per_loop import PerLoop
from ._checks import check_http_client
from ._response_async import AsyncResponse, open_response_async
from ._shards import Shards, client_options
from ._types import FailureKind, Request, TransportFailure

__all__ = ["AsyncResponse", "AsyncSender"]


class AsyncSender:
    """Opens responses, on whatever event loop is running.

    `client` is the caller's own and stays open; without it one is made for each event loop,
    because a pooled connection belongs to the loop that opened it. `authorization` gives the
    value of that header, anew for every request. A forked child starts with no connections.
    """

    def __init__(
        self, client: Any = None, authorization: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        check_http_client(client, is_async=True)
        self._authorization = authorization
        self._client = client
        self._given = None if client is None else Shards(lambda: client)
        self._clients: PerLoop[Shards[Any]] = PerLoop(_current_loop)
        self._closed = False
        _fork.register(self)

    async def open(self, request: Request) -> AsyncResponse:
        """Send the request and return the response as soon as its head is there.

        Raises:
            TransportFailure: there is no response.
        """
        self._check_open()
        return await open_response_async(await self._shards(), request, self._authorization)

    async def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            TransportFailure: the sender was closed meanwhile.
        """
        import anyio  # loaded with the first request anyway

        await anyio.sleep(seconds)
        self._check_open()

    async def aclose(self) -> None:
        """Close the HTTP client of this event loop if it is ours; may be called twice."""
        self._closed = True
        await self._clients.aclose()

    def after_fork(self) -> None:
        """Leave the connections to the parent process, and locks that its threads may hold."""
        _fork.keep(self._given)
        self._given = None if self._client is None else Shards(lambda: self._client)

    async def _shards(self) -> Shards[Any]:
        if self._given is not None:
            return self._given
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
    import asyncio  # slow to import, and there already when this is called

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        # Not under asyncio: then the one other library that httpx2 knows is loaded already.
        return sys.modules["trio"].lowlevel.current_trio_token()


def _new_client() -> httpx2.AsyncClient:
    from ._backend import merge_chunks  # httpcore2, which httpx2 imports with its first client

    client = httpx2.AsyncClient(**client_options())
    merge_chunks(client)
    return client
