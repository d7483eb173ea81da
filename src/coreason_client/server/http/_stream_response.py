"""Responses of server-sent events, which end when their reader leaves.

`SSEResponse` is the base of all protocols; `EventStream` streams from the log, and a first request
and a resume use the same code. The only state of a reader is its position. It reads a page from the
log, sends it as one message and then reads the next, so a slow connection delays no other reader
and costs one page of memory.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Final, TypeVar

from starlette.background import BackgroundTask
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from coreason_manifest.definitions.presentation import StreamOpCode

from ...sse import encode_comment, encode_event
from .._internals import SEND, DisconnectWatch, direct_writer, response_cycle
from ..engine._limits import Unit
from ..engine._packets import Frames
from ..engine._runtime import Runtime
from ..errors import LogError, PositionGone
from ..log.base import Follower, StreamMeta
from ._cursor import Cursor
from ._problems import too_many_readers

logger = logging.getLogger("coreason_client.server")

T = TypeVar("T")
_HEARTBEAT: Final = encode_comment()
# Ready made: `Response.init_headers` would encode them anew for every stream.
_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


async def take_reader(runtime: Runtime, principal: str) -> Unit:
    """Return the unit of another reader.

    Raises:
        Problem: 429, the principal must not have one.
        LogError: the log does not answer.
    """
    if (reader := await runtime.producers.take_reader(principal)) is None:
        raise too_many_readers(runtime.options)
    return reader


class SSEResponse(Response, ABC):
    """Server-sent events; `_subject` says in a log line what is read."""

    media_type = "text/event-stream"
    _subject: str

    def __init__(self, runtime: Runtime, headers: Mapping[str, str]) -> None:
        self.status_code = 200
        self.background: BackgroundTask | None = None
        self.body = b""
        own = Headers(headers).raw
        names = {name for name, _ in own}
        self.raw_headers = [*(one for one in _HEADERS if one[0] not in names), *own]
        self._runtime = runtime
        self._retry_sent = False
        self._scope: Scope = {}
        self._write: Callable[[bytes], bool] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the stream ends, the reader disconnects, or the server stops.

        Then run the background task, as every response of Starlette does.
        """
        try:
            await while_connected(scope, receive, self._deliver(scope, send))
        finally:
            self._left()
        if self.background is not None:
            await self.background()

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
                *(self._subject, self._runtime.options.send_timeout, self._position),
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

            def leave(_: object = None) -> None:
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


def _watch(scope: Scope, receive: Receive, leave: Callable[..., None]) -> Callable[[], None]:
    """Call `leave` when the client has disconnected; return a function that ends the watch."""
    cycle = response_cycle(scope.get(SEND))
    if cycle is not None and getattr(receive, "__self__", None) is cycle:
        return DisconnectWatch(cycle, leave).stop
    gone = asyncio.ensure_future(disconnected(receive))

    def stop() -> None:
        gone.remove_done_callback(leave)
        gone.cancel()

    gone.add_done_callback(leave)
    return stop


async def disconnected(receive: Receive) -> None:
    """Return when the client has disconnected; its body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


PAGE = 512
"""The number of entries that are read at a time."""


def nothing_left(runtime: Runtime, meta: StreamMeta, after: Cursor) -> Response | None:
    """Return the response to a reader that has everything, None if more follows its position.

    Raises:
        PositionGone: what follows is no longer kept.
        LogUnavailable: the stream cannot be written or ended at the moment.
    """
    if meta.outcome is not None and after.seq == meta.last_seq:
        # The status tells an EventSource not to reconnect, and the header how the stream ended.
        return Response(status_code=204, headers={"X-Stream-Outcome": meta.outcome})
    if meta.body_gone:
        raise PositionGone(meta.stream_id, after.seq)
    if meta.outcome is None and after.seq >= meta.last_seq:
        runtime.check_producer(meta.stream_id)
    return None


class EventStream(SSEResponse):
    """The packets of a stream after a position, as server-sent events.

    `message` is sent first, as packet 0, if it is not empty. A protocol with another wire format
    overrides the methods below `_follow`.
    """

    def __init__(
        self,
        runtime: Runtime,
        meta: StreamMeta,
        after: Cursor,
        headers: Mapping[str, str] | None = None,
        message: str = "",
    ) -> None:
        stream_id = str(meta.stream_id)
        about = {"X-Request-ID": str(meta.request_id), "X-Stream-ID": stream_id}
        super().__init__(runtime, about if headers is None else {**about, **headers})
        self._meta = meta
        self._subject = f"stream {stream_id}"
        self._after = after
        self._message = message
        self._follower: Follower | None = None
        self._joined_during_drain = runtime.closing

    def _left(self) -> None:
        self._runtime.producers.remove_reader(self._meta)

    @property
    def _position(self) -> int:
        return self._after.seq if self._follower is None else self._follower.position

    def _close(self) -> None:
        if self._follower is not None:
            self._follower.close()

    def _follow(self) -> Follower:
        after = self._after
        return self._runtime.log.follow(self._meta.stream_id, after.seq, after.epoch)

    def _encode(self, entries: Sequence[bytes]) -> bytes:
        """Return entries as they are sent."""
        return b"".join(entries)

    def _direct(self) -> Callable[[bytes], bool] | None:
        """Return the function that takes entries while the reader waits."""
        return self._write

    @property
    def _is_complete(self) -> bool:
        """True if nothing may follow what was encoded, whatever is in the log."""
        return False

    async def _leave(self, send: Send) -> None:
        """End the response before the stream has ended; the reader resumes elsewhere."""
        await self._send(send, b"", more=False)

    async def _send_all(self, send: Send) -> None:
        runtime, heartbeat = self._runtime, self._runtime.options.heartbeat
        follower = self._follower = self._follow()
        write = self._direct()
        if self._joined_during_drain:
            await self._send_retry(send)
        if self._message:
            await self._send(send, _message_frame(self._meta, self._message))
        ended = False
        while not ended:
            page = await follower.next(PAGE, heartbeat, write)
            ended = page.ended
            if page.entries:
                # The last page and the end of the body in one message: a client that has read the
                # last packet has the end too, and can reuse the connection.
                body = self._encode(page.entries)
                ended = ended or self._is_complete
                await self._send(send, body, more=not ended)
                if ended:
                    return
            elif not ended and (self._retry_sent or not runtime.closing):
                runtime.check_producer(self._meta.stream_id)
                await self._send_heartbeat(send)
            if runtime.closing and not ended:
                await self._send_retry(send)
                if runtime.readers_must_leave(joined_during_drain=self._joined_during_drain):
                    await self._leave(send)
                    return
        await self._send(send, b"", more=False)


def _message_frame(meta: StreamMeta, text: str) -> bytes:
    """Return the packet that has the message which a stream answers: it precedes all others."""
    frames = Frames(meta.stream_id, lambda: datetime.fromtimestamp(meta.opened_at, UTC))
    event = {"type": "USER_MESSAGE", "data": {"text": text}}
    return frames.packet(0, StreamOpCode.EVENT, event)[0]


class NextStream(SSEResponse):
    """The packets of a stream that has not begun yet; `find` returns it, and its message, later.

    `wait` is called with the seconds until the next heartbeat, and may return earlier. `position`
    is that of a client that has read nothing yet.
    """

    def __init__(
        self,
        runtime: Runtime,
        reader: Unit,
        find: Callable[[], Awaitable[tuple[StreamMeta, str] | None]],
        wait: Callable[[float], Awaitable[None]],
        position: str = "",
    ) -> None:
        super().__init__(runtime, {})
        self._first = f"id: {position}\n\n".encode() if position else _HEARTBEAT
        self._subject = "a conversation"
        self._reader = reader.hand_on()
        self._find = find
        self._wait = wait
        self._stream: EventStream | None = None

    @property
    def _position(self) -> int:
        return 0 if self._stream is None else self._stream._position

    def _left(self) -> None:
        self._reader.release()
        if self._stream is not None:
            self._stream._left()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream._close()

    async def _send_all(self, send: Send) -> None:
        runtime, silent_until = self._runtime, 0.0
        while (found := await self._find()) is None:
            if runtime.closing:
                await self._send_retry(send)
                await self._send(send, b"", more=False)
                return
            if monotonic() >= silent_until:
                await self._send(send, _HEARTBEAT if silent_until else self._first)
                silent_until = monotonic() + runtime.options.heartbeat
            await self._wait(silent_until - monotonic())
        meta, message = found
        runtime.producers.add_reader(meta, self._reader)
        after = Cursor(meta.stream_id)
        self._stream = stream = EventStream(runtime, meta, after, message=message)
        stream._scope, stream._write = self._scope, self._write
        await stream._send_all(send)
