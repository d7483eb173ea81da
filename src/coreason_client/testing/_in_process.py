"""An HTTP transport that calls an ASGI application in the same event loop, without a port.

The transport of the HTTP library itself returns a response only when it is complete; this one
returns each piece as it is written, and a connection can be lost in the middle.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2

from ._received import ABORT

__all__ = ["InProcessTransport"]


class InProcessTransport(httpx2.AsyncBaseTransport):
    """Sends requests to an ASGI application; for `httpx2.AsyncClient(transport=…)` on asyncio."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response as soon as it begins."""
        call = _Call(self._app, request, await request.aread())
        status, headers = await call.begin()
        return httpx2.Response(status, headers=headers, stream=call)


class _Call(httpx2.AsyncByteStream):
    """One request, and the body of its response."""

    def __init__(
        self, app: Callable[..., Awaitable[None]], request: httpx2.Request, body: bytes
    ) -> None:
        self._body: bytes | None = body
        self._left = asyncio.Event()
        self._messages: asyncio.Queue[dict[str, Any] | BaseException | None] = asyncio.Queue()
        self._task = asyncio.ensure_future(
            app(self._scope(request), self._receive, self._messages.put)
        )
        self._task.add_done_callback(self._finished)

    def _scope(self, request: httpx2.Request) -> dict[str, Any]:
        url = request.url
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.split(b"?")[0],
            "query_string": url.query,
            "server": (url.host, url.port),
            "client": ("127.0.0.1", 1),
            "root_path": "",
            ABORT: self._abort,
        }

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    def _abort(self) -> None:
        self._messages.put_nowait(ConnectionResetError("the server has ended the connection"))
        self._left.set()

    def _finished(self, task: "asyncio.Future[None]") -> None:
        error = None if task.cancelled() else task.exception()
        self._messages.put_nowait(error)

    async def begin(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Return the status and the headers."""
        message = await self._next()
        if message is None:
            raise ConnectionResetError("the application has returned without a response")
        return message["status"], list(message.get("headers", ()))

    async def _next(self) -> dict[str, Any] | None:
        try:
            message = await self._messages.get()
        except asyncio.CancelledError:
            self._left.set()
            raise
        if isinstance(message, BaseException):
            raise message
        return message

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more and (message := await self._next()) is not None:
            more = message.get("more_body", False)
            if body := message.get("body", b""):
                yield body

    async def aclose(self) -> None:
        """Leave the response, as a client that closes its connection."""
        self._left.set()
        if not self._task.done():
            await asyncio.wait([self._task], timeout=5.0)
