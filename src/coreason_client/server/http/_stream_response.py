"""The response that streams from the log; a first request and a resume use the same code.

The only state of a reader is its position. It reads a page from the log, sends it as one message
and then reads the next, so a slow connection delays no other reader and costs one page of memory.
"""

from collections.abc import Callable, Mapping, Sequence

from starlette.types import Send

from ..engine._runtime import Runtime
from ..log.base import Follower, StreamMeta
from ._cursor import Cursor
from ._sse_response import SSEResponse

__all__ = ["PAGE", "EventStream"]

PAGE = 512
"""The number of entries that are read at a time."""


class EventStream(SSEResponse):
    """The packets of a stream after a position, as server-sent events.

    A protocol with another wire format overrides the methods below `_follow`.
    """

    def __init__(
        self,
        runtime: Runtime,
        meta: StreamMeta,
        after: Cursor,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        stream_id = str(meta.stream_id)
        about = {"X-Request-ID": str(meta.request_id), "X-Stream-ID": stream_id}
        super().__init__(runtime, about if headers is None else {**about, **headers})
        self._meta = meta
        self._subject = f"stream {stream_id}"
        self._after = after
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
