"""Sends requests with an `httpx2.AsyncClient`, or with a client of the caller's."""

import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

import httpx2

from .. import _fork
from .._per_loop import PerLoop
from ._build import (
    MAX_ERROR_BODY_SECONDS,
    body_reader,
    build,
    head_of,
    hurry,
    is_over,
    is_raw,
    once,
    read_limit,
    send_options,
    with_authorization,
)
from ._checks import check_http_client
from ._failures import translated
from ._shards import Shards, client_options
from ._types import FailureKind, Request, TransportFailure

__all__ = ["AsyncResponse", "AsyncSender"]


class AsyncResponse:
    """A response whose body is still to be read; `aclose` it in any case."""

    def __init__(
        self, response: Any, on_close: Callable[[], None], deadline: float | None = None
    ) -> None:
        self._response = response
        self._on_close = on_close
        self._deadline = deadline
        self._process = _fork.ProcessMark()
        self.head = head_of(response)

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Iterate over the body as it arrives; close the iterator when stopping early.

        Raises:
            TransportFailure: the connection broke, what had arrived was handed out before; or it
                belongs to another process.
        """
        self._process.check()
        response, deadline = self._response, self._deadline
        raw = is_raw(response, self.head)
        pieces = response.aiter_raw() if raw else response.aiter_bytes()
        read_body, timeout = body_reader(response) if raw else (None, None)
        with translated():
            async with _fork.aclosing(pieces):
                try:
                    async for chunk in pieces:
                        yield chunk
                        self._process.check()
                        while read_body is not None and (
                            more := await read_body(read_limit(timeout, deadline))
                        ):
                            yield more
                            self._process.check()
                except GeneratorExit:
                    # Then the connection can be used again.
                    if is_over(response) and self._process.is_here:
                        async for _ in pieces:
                            pass
                    raise

    async def read(self, limit: int) -> bytes:
        """Read the body up to a limit; what arrived before a failure is the body."""
        body = bytearray()
        hurry(self._response, MAX_ERROR_BODY_SECONDS)
        deadline = time.monotonic() + MAX_ERROR_BODY_SECONDS
        with suppress(TransportFailure):
            async with aclosing(self.chunks()) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) >= limit or time.monotonic() > deadline:
                        break
        return bytes(body[:limit])

    async def aclose(self) -> None:
        """Close the response; its connection is closed too unless the body was read to its end."""
        if not self._process.is_here:
            return
        try:
            with suppress(TransportFailure), translated():
                await self._response.aclose()
        finally:
            self._on_close()


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
        if self._authorization is not None:
            request = with_authorization(request, await self._authorization())
        clients = await self._shards()
        shard = clients.acquire()
        release = once(lambda: clients.release(shard))
        try:
            with translated():
                built = build(shard.client, request)
                response = await shard.client.send(built, **send_options(request))
                return AsyncResponse(response, release, request.deadline)
        except BaseException:
            release()
            raise

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
