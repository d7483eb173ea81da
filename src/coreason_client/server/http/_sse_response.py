"""A response of server-sent events that ends when its reader leaves; the base of all protocols."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...sse import encode_comment, encode_event
from .._internals import SEND, DisconnectWatch, direct_writer, response_cycle
from ..engine._runtime import Runtime
from ..errors import LogError

__all__ = ["SSEResponse", "disconnected", "while_connected"]

logger = logging.getLogger("coreason_client.server")

T = TypeVar("T")
_HEARTBEAT: Final = encode_comment()
# Ready made: `Response.init_headers` would encode them anew for every stream.
_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class SSEResponse(Response, ABC):
    """Server-sent events; `_subject` says in a log line what is read."""

    media_type = "text/event-stream"
    _subject: str

    def __init__(self, runtime: Runtime, headers: Mapping[str, str]) -> None:
        self.status_code = 200
        self.background: BackgroundTask | None = None
        self.body = b""
        own = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in headers.items()
        ]
        names = {name for name, _ in own}
        self.raw_headers = [*(one for one in _HEADERS if one[0] not in names), *own]
        self._runtime = runtime
        self._retry_sent = False
        self._scope: Scope = {}
        self._write: Callable[[bytes], bool] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the stream ends, the reader disconnects, or the server stops."""
        try:
            await while_connected(scope, receive, self._deliver(scope, send))
        finally:
            self._left()

    @abstractmethod
    async def _send_all(self, send: Send) -> None:
        """Send everything, and the end of the body."""

    @abstractmethod
    def _left(self) -> None:
        """Stop counting the reader."""

    @property
    @abstractmethod
    def _position(self) -> int:
        """The number of the last packet that was sent, for a log line."""

    def _close(self) -> None:
        """Stop reading the log."""

    async def _deliver(self, scope: Scope, send: Send) -> None:
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            self._scope = scope
            self._write = direct_writer(scope)
            await self._send_all(send)
        except TimeoutError:
            logger.info(
                "a reader of %s read nothing for %g s and was disconnected at packet %d",
                self._subject,
                self._runtime.options.send_timeout,
                self._position,
            )
        except LogError as error:
            # Without a regular end of the body the reader knows that packets are missing.
            logger.warning("a reader of %s was disconnected: %s", self._subject, error)
        finally:
            self._close()

    async def _cut_off(self) -> None:
        """Close the connection after what was sent, without the end of the body.

        uvicorn reports an error if the application returns first.
        """
        if (cycle := response_cycle(self._scope.get(SEND))) is not None:
            cycle.transport.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._runtime.options.send_timeout):
                    await asyncio.Event().wait()  # ended by `while_connected`

    async def _send_heartbeat(self, send: Send) -> None:
        await self._send(send, _HEARTBEAT)

    async def _send_retry(self, send: Send) -> None:
        """Send the `retry:` hint, once."""
        if not self._retry_sent:
            self._retry_sent = True
            await self._send(send, encode_event(retry_ms=self._runtime.reconnect_ms()))

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        if more and self._write is not None and self._write(body):
            return
        async with asyncio.timeout(self._runtime.options.send_timeout):
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def while_connected(scope: Scope, receive: Receive, work: Awaitable[T]) -> T | None:
    """Return the result of work; it is cancelled if the client disconnects, and the result is None.

    The body of the request must have been read.
    """
    here = asyncio.timeout(None)
    try:
        async with here:

            def leave() -> None:
                with suppress(RuntimeError):  # the work may have ended meanwhile
                    here.reschedule(0.0)

            stop = _watch(scope, receive, leave)
            try:
                return await work
            finally:
                stop()
    except TimeoutError:
        if not here.expired():
            raise
        return None


def _watch(scope: Scope, receive: Receive, leave: Callable[[], None]) -> Callable[[], None]:
    """Call `leave` when the client has disconnected; return a function that ends the watch."""
    cycle = response_cycle(scope.get(SEND))
    if cycle is not None and getattr(receive, "__self__", None) is cycle:
        return DisconnectWatch(cycle, leave).stop
    gone = asyncio.ensure_future(disconnected(receive))

    def call(_: object) -> None:
        leave()

    def stop() -> None:
        gone.remove_done_callback(call)
        gone.cancel()

    gone.add_done_callback(call)
    return stop


async def disconnected(receive: Receive) -> None:
    """Return when the client has disconnected; its body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
