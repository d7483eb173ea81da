"""Reads an answer from the log: as a stream of events, or as a whole."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from typing import Final, TypeVar

from starlette.types import Send

from ..answer import has_rewind, split_entries, valid_entries
from ..engine._runtime import Runtime
from ..http._cursor import Cursor
from ..http._problems import Problem, shutting_down
from ..http._stream_response import PAGE, EventStream
from ..log.base import StreamMeta
from ._responses import ResponseWriter
from ._writer import REWOUND, Writer

__all__ = ["AnswerStream", "check_no_rewind", "resumed", "write_all"]

W = TypeVar("W", bound=Writer)

_HEADERS: Final = {"Cache-Control": "no-cache, no-transform"}


class AnswerStream(EventStream):
    """An answer in the events of another protocol.

    A body that ends regularly has the end mark of the protocol. A reader that must leave earlier is
    cut off, because every client takes a regular end for the end of the answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        meta: StreamMeta,
        writer: Writer,
        *,
        after: Cursor | None = None,
        pending: bytes = b"",
        on_written: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(runtime, meta, after or Cursor(meta.stream_id), _HEADERS)
        self._writer = writer
        self._pending = pending
        self._encoded = 0  # entries that were encoded and are returned by the log once more
        self._on_written = on_written

    def _encode(self, entries: Sequence[bytes]) -> bytes:
        body = self._pending + self._writer.feed(entries[self._encoded :])
        self._pending, self._encoded = b"", 0
        return body

    def _direct(self) -> Callable[[bytes], bool] | None:
        return None if self._write is None else self._write_entries

    def _write_entries(self, body: bytes) -> bool:
        assert self._write is not None  # noqa: S101 - otherwise it is not called
        writer = self._writer
        sent = writer.feed_joined(body)
        if not sent or (not writer.has_ended and self._write(sent)):
            return True
        # The log returns these entries again, in the page that is sent in the other way.
        self._pending, self._encoded = sent, len(split_entries(body))
        return False

    @property
    def _is_complete(self) -> bool:
        return self._writer.has_ended

    async def _send_retry(self, send: Send) -> None:
        self._retry_sent = True  # the clients of these protocols do not know it

    async def _leave(self, send: Send) -> None:
        await self._cut_off()

    async def _send_all(self, send: Send) -> None:
        if self._pending:
            pending, self._pending = self._pending, b""
            await self._send(send, pending)
        await super()._send_all(send)
        if self._is_complete:
            self._on_written()


async def resumed(
    runtime: Runtime, meta: StreamMeta, writer: ResponseWriter, after: int
) -> AnswerStream:
    """Return the stream of the events after a number, which the writer must leave out.

    Raises:
        Problem: 410, the log does not have this event, or another one may have its number.
        LogError: the log does not answer.
    """
    pending = [writer.start()]
    # A number does not say in which epoch its packet was written. So if the store may have lost
    # packets, those of later epochs may not be the ones that the client has read.
    ambiguous = meta.epochs[0].first_seq if meta.epochs and runtime.log.may_forget else None
    with closing(runtime.log.follow(meta.stream_id, 0)) as follower:
        ended = False
        while not ended and writer.number <= after + 1:
            limit = PAGE
            if ambiguous is not None and follower.position < ambiguous - 1:
                limit = min(limit, ambiguous - 1 - follower.position)
            elif ambiguous is not None:
                break
            page = await follower.next(limit, 0)
            pending.append(writer.feed(page.entries))
            ended = page.ended
            if not page.entries:
                break
            await asyncio.sleep(0)  # a long answer must not keep others waiting
        position = Cursor(meta.stream_id, follower.position, follower.epoch)
    is_new_epoch = runtime.log.may_forget and not meta.epochs and position.epoch != 1
    if after >= writer.number or is_new_epoch:
        detail = (
            f"This response has no event {after}, or another one may have its number by now: read "
            "it without starting_after."
        )
        errors = [{"loc": ["starting_after"], "msg": detail}]
        raise Problem(410, "position-gone", detail, errors=errors)
    return AnswerStream(runtime, meta, writer, after=position, pending=b"".join(pending))


async def check_no_rewind(runtime: Runtime, meta: StreamMeta) -> None:
    """Refuse to stream an answer of which words were taken back; only a later epoch does that.

    Raises:
        Problem: 409.
    """
    if not meta.epochs or meta.outcome is None:
        return
    with closing(runtime.log.follow(meta.stream_id, 0)) as follower:
        ended = False
        while not ended:
            page = await follower.next(PAGE, 0)
            ended = page.ended
            if has_rewind(page.entries):
                raise Problem(409, REWOUND["code"], REWOUND["message"])
            await asyncio.sleep(0)


async def write_all(runtime: Runtime, meta: StreamMeta, make: Callable[[], W], *, waits: bool) -> W:
    """Return a writer that was fed with all entries that are valid; `waits` for the end.

    Raises:
        LogError: the log does not answer, or no longer has the entries.
        Problem: 503, the server stops before the stream has ended.
    """
    writer = make()
    writer.start()
    entries: list[bytes] = []  # of a durable stream, whose agent may take words back
    async for page in _pages(runtime, meta, waits=waits):
        if meta.agent is not None:
            entries += page
            if has_rewind(page):
                writer, page = make(), valid_entries(entries)
                writer.start()
        writer.feed(page)
    return writer


async def _pages(
    runtime: Runtime, meta: StreamMeta, *, waits: bool
) -> AsyncIterator[Sequence[bytes]]:
    wait = runtime.options.heartbeat if waits else 0.0
    joined_during_drain = runtime.closing
    with closing(runtime.log.follow(meta.stream_id, 0)) as follower:
        while True:
            page = await follower.next(PAGE, wait)
            yield page.entries
            if page.ended or not (page.entries or waits):
                return
            if not page.entries:
                runtime.check_producer(meta.stream_id)
            if waits and runtime.readers_must_leave(joined_during_drain=joined_during_drain):
                raise shutting_down()
            await asyncio.sleep(0)  # a long answer must not keep others waiting
