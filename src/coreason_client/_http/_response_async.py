"""Async responses of an HTTP client, and how they are opened."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from .. import _fork
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
from ._failures import translated
from ._shards import Shards
from ._types import Request, TransportFailure

__all__ = ["AsyncResponse", "open_response_async"]


class _AsyncClosingHere:
    """Closes a generator at the end of a block, unless this is a forked child process by then."""

    __slots__ = ("_generator", "_process")

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._process = _fork.ProcessMark()

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        if self._process.is_here:
            await self._generator.aclose()
        else:
            _fork.keep(self._generator)


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
            async with _AsyncClosingHere(pieces):
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


async def open_response_async(
    clients: Shards[Any], request: Request, authorization: Callable[[], Awaitable[str]] | None
) -> AsyncResponse:
    """Send a request with one of the clients; return the response as soon as its head is there.

    Raises:
        TransportFailure: there is no response.
    """
    if authorization is not None:
        request = with_authorization(request, await authorization())
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
