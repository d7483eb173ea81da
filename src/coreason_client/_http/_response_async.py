"""Async responses of an HTTP client, and the function that opens them."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from .. import _ownership
from ._build import (
    MAX_ERROR_BODY_SECONDS,
    Shards,
    begin_body,
    body_reader,
    build_request,
    can_read_raw,
    close_body_with_response,
    end_body_within,
    is_body_complete,
    once,
    proxy_of,
    response_head,
    send_options,
    translated,
    with_authorization,
)
from ._types import CONNECT_FAILURES, Request, TransportFailure


class _AsyncClosingUnlessForked:
    """Closes a generator at the end of a block, but not in a forked child process."""

    __slots__ = ("_generator", "_process")

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._process = _ownership.OwnerProcess()

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        if self._process.is_current:
            await self._generator.aclose()
        else:
            _ownership.never_finalize(self._generator)


class AsyncResponse:
    """A response whose body has not been read yet; call `aclose` in every case.

    Attributes:
        head: status and headers.
        end_wait: seconds to wait for the end of the body if reading stops before it. The end often
            follows shortly after the last event, and then the connection can be reused.
    """

    def __init__(self, response: Any, on_close: Callable[[], None]) -> None:
        self._response = response
        self._on_close = on_close
        self._process = _ownership.OwnerProcess()
        self.head = response_head(response)
        self.end_wait = 0.0

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Iterate over the body as it arrives; close the iterator when stopping early.

        Raises:
            TransportFailure: the connection broke (everything that had arrived was yielded
                before), or it belongs to the parent process.
        """
        self._process.check()
        response = self._response
        raw = can_read_raw(response, self.head)
        pieces = response.aiter_raw() if raw else response.aiter_bytes()
        read_body, timeout = body_reader(response) if raw else (None, None)
        with translated():
            async with _AsyncClosingUnlessForked(pieces):
                try:
                    async for chunk in pieces:
                        yield chunk
                        self._process.check()
                        while read_body is not None and (more := await read_body(timeout)):
                            yield more
                            self._process.check()
                except GeneratorExit:
                    if self.end_wait and read_body is not None and self._process.is_current:
                        with suppress(Exception):
                            await read_body(self.end_wait)
                    # Reading the rest lets the connection be reused.
                    if is_body_complete(response) and self._process.is_current:
                        async for _ in pieces:
                            pass
                    raise

    async def collect(self, add: Callable[[bytes], None]) -> None:
        """Pass each piece of the body to a function.

        Raises:
            TransportFailure: as for `chunks`.
        """
        async with aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                add(chunk)

    async def read(self, limit: int) -> bytes:
        """Read the body up to a limit; after a failure, return the part that had arrived."""
        body = bytearray()
        end = end_body_within(self._response, MAX_ERROR_BODY_SECONDS)
        with suppress(TransportFailure):
            async with aclosing(self.chunks()) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) >= limit or time.monotonic() > end:
                        break
        return bytes(body[:limit])

    async def aclose(self) -> None:
        """Close the response, and its connection too unless the whole body was read."""
        if not self._process.is_current:
            return
        try:
            with suppress(TransportFailure), translated():
                await self._response.aclose()
        finally:
            self._on_close()


async def open_response_async(
    clients: Shards[Any], request: Request, authorization: Callable[[], Awaitable[str]] | None
) -> AsyncResponse:
    """Send a request with one of the clients; return the response when its head has arrived.

    Raises:
        TransportFailure: no response was received.
    """
    if authorization is not None:
        request = with_authorization(request, await authorization())
    shard = clients.acquire()
    release = once(lambda: clients.release(shard))
    try:
        with translated():
            built = build_request(shard.client, request)
            response = await shard.client.send(built, **send_options(request))
            # async only: begin
            close_body_with_response(response)
            # async only: end
            begin_body(response, request)
            return AsyncResponse(response, release)
    except BaseException as error:
        release()
        if isinstance(error, TransportFailure) and error.kind in CONNECT_FAILURES:
            error.proxy = proxy_of(shard.client, request.url)
        raise
