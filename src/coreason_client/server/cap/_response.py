"""The response that streams from the log; a first request and a resume use the same code.

The only state of a reader is its position. It reads a page from the log, sends it as one message
and then reads the next, so a slow connection delays no other reader and costs one page of memory.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...sse import encode_comment, encode_event
from ..engine._runtime import Runtime
from ..errors import LogError
from ..http._direct_write import direct_writer
from ..log.base import Follower, StreamMeta

__all__ = ["EventStream"]

logger = logging.getLogger("coreason_client.server")

_PAGE = 512
_HEARTBEAT = encode_comment()


class EventStream(Response):
    """The packets of a stream after a position, as server-sent events."""

    media_type = "text/event-stream"

    def __init__(self, runtime: Runtime, meta: StreamMeta, after_seq: int) -> None:
        self.status_code = 200
        self.background: BackgroundTask | None = None
        self.body = b""
        self.init_headers(
            {
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
                "X-Request-ID": str(meta.request_id),
                "X-Stream-ID": str(meta.stream_id),
            }
        )
        del self.headers["content-length"]
        self._runtime = runtime
        self._meta = meta
        self._after_seq = after_seq
        self._retry_sent = False
        self._write: Callable[[bytes], bool] | None = None
        self._joined_during_drain = runtime.closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the stream ends, the reader disconnects, or the server stops."""
        try:
            await self._serve(scope, receive, send)
        finally:
            self._runtime.producers.remove_reader(self._meta)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_disconnected(receive))
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as while_here:

                def leave(_: object) -> None:
                    with suppress(RuntimeError):  # the response may have ended meanwhile
                        while_here.reschedule(0.0)

                gone.add_done_callback(leave)
                try:
                    await self._deliver(scope, send)
                finally:
                    gone.remove_done_callback(leave)
                    gone.cancel()

    async def _deliver(self, scope: Scope, send: Send) -> None:
        follower = self._runtime.log.follow(self._meta.stream_id, self._after_seq)
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            self._write = direct_writer(scope)
            await self._send_all(send, follower)
        except TimeoutError:
            logger.info(
                "a reader of stream %s read nothing for %g s and was disconnected at packet %d",
                self._meta.stream_id,
                self._runtime.options.send_timeout,
                follower.position,
            )
        except LogError as error:
            # Without a regular end of the body the reader knows that packets are missing.
            logger.warning(
                "a reader of stream %s was disconnected: %s", self._meta.stream_id, error
            )
        finally:
            follower.close()

    async def _send_all(self, send: Send, follower: Follower) -> None:
        runtime, heartbeat = self._runtime, self._runtime.options.heartbeat
        if self._joined_during_drain:
            await self._send_retry(send)
        ended = False
        while not ended:
            page = await follower.next(_PAGE, heartbeat, self._write)
            ended = page.ended
            if page.entries:
                # The last page and the end of the body in one message: a client that has read the
                # last packet has the end too, and can reuse the connection.
                await self._send(send, b"".join(page.entries), more=not ended)
                if ended:
                    return
            elif not ended and (self._retry_sent or not runtime.closing):
                runtime.check_producer(self._meta.stream_id)
                await self._send(send, _HEARTBEAT)
            if runtime.closing and not ended:
                await self._send_retry(send)
                if runtime.readers_must_leave(joined_during_drain=self._joined_during_drain):
                    break
        await self._send(send, b"", more=False)

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


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
