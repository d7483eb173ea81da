"""Answers in the wire formats of other protocols, read from the log: as a stream, or as a whole.

`AnswerRoutes` is the base of the handlers of these protocols.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from typing import Final, Generic, TypeVar
from uuid import UUID

from starlette.types import Send

from ..answer._entries import has_rewind, split_entries, valid_entries
from ..answer._writer import Writer
from ..engine._runtime import Runtime
from ..errors import RequestConflict
from ..log.base import Follower, Page, StreamLog, StreamMeta
from ..observe import _log_lines
from ._admission import Admission, Admitted, StreamRequest
from ._cursor import Cursor
from ._gate import Gate
from ._problems import Problem, shutting_down
from ._stream_response import PAGE, EventStream

R = TypeVar("R", bound="AnswerStream | None")
S = TypeVar("S")
W = TypeVar("W", bound=Writer)

CONFLICT: Final = "request-conflict"
"""The name of the refusal of a request that differs from the one before."""
_HEADERS: Final = {"Cache-Control": "no-cache, no-transform"}
_REWIND: Final = b'"REWIND"'


class AnswerStream(EventStream):
    """An answer in the events of another protocol.

    The writer must have been fed with all entries up to `after`. A body that ends regularly has the
    end mark of the protocol. A reader that must leave earlier is cut off, because every client
    takes a regular end for the end of the answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        meta: StreamMeta,
        writer: Writer,
        *,
        after: Cursor | None = None,
        pending: bytes = b"",
        headers: Mapping[str, str] | None = None,
        on_written: Callable[[], None] = lambda: None,
    ) -> None:
        after = after or Cursor(meta.stream_id)
        super().__init__(runtime, meta, after, {**_HEADERS, **(headers or {})})
        self._writer = writer
        self._pending = pending
        self._encoded = 0  # entries that were encoded and are returned by the log once more
        self._on_written = on_written

    def _follow(self) -> Follower:
        return _following(self._runtime.log, self._meta, self._writer, self._after)

    def _encode(self, entries: Sequence[bytes]) -> bytes:
        body = self._pending + self._writer.feed(entries[self._encoded :])
        self._pending, self._encoded = b"", 0
        return body

    def _direct(self) -> Callable[[bytes], bool] | None:
        return None if self._write is None else self._write_entries

    def _write_entries(self, body: bytes) -> bool:
        assert self._write is not None  # noqa: S101 - otherwise it is not called
        writer = self._writer
        if _REWIND in body and writer.takes_back:
            return False  # in a page, so that the follower loads what is still valid
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
        pending, self._pending = self._pending, b""
        if self._is_complete:
            await self._send(send, pending, more=False)
        else:
            if pending:
                await self._send(send, pending)
            await super()._send_all(send)
        if self._is_complete:
            self._on_written()


class _LoadingFollower(Follower):
    """Loads all entries for the writer whenever some of them are void."""

    def __init__(self, log: StreamLog, meta: StreamMeta, writer: Writer, inner: Follower) -> None:
        self._log = log
        self._meta = meta
        self._writer = writer
        self._inner = inner
        self.position = inner.position
        self.epoch = inner.epoch

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return the next page; the writer has everything that it needs to encode it."""
        page = await self._inner.next(limit, wait, write)
        self.position, self.epoch = self._inner.position, self._inner.epoch
        self._writer.loaded = ()
        if has_rewind(page.entries):
            stream_id = self._meta.stream_id
            self._writer.loaded = await load_entries(self._log, stream_id, self.position)
        return page

    def close(self) -> None:
        """Stop reading."""
        self._inner.close()


def _following(log: StreamLog, meta: StreamMeta, writer: Writer, after: Cursor) -> Follower:
    follower = log.follow(meta.stream_id, after.seq, after.epoch)
    return _LoadingFollower(log, meta, writer, follower) if writer.takes_back else follower


async def load_entries(log: StreamLog, stream_id: UUID, up_to: int | None = None) -> list[bytes]:
    """Return the entries of a stream that exist, up to a number if one is given.

    Raises:
        LogError: the log does not answer, or no longer has the entries.
    """
    entries: list[bytes] = []
    with closing(log.follow(stream_id, 0)) as follower:
        while up_to is None or len(entries) < up_to:
            limit = PAGE if up_to is None else min(PAGE, up_to - len(entries))
            page = await follower.next(limit, 0)
            entries += page.entries
            if page.ended or not page.entries:
                break
            await asyncio.sleep(0)  # a long answer must not keep others waiting
    return entries


async def feed_up_to(log: StreamLog, meta: StreamMeta, writer: Writer, seq: int) -> list[bytes]:
    """Feed a writer with the entries up to a number, and return what it wrote.

    Raises:
        LogError: the log does not answer, or no longer has the entries.
    """
    written: list[bytes] = []
    with closing(_following(log, meta, writer, Cursor(meta.stream_id))) as follower:
        while follower.position < seq:
            page = await follower.next(min(PAGE, seq - follower.position), 0)
            written.append(writer.feed(page.entries))
            if page.ended or not page.entries:
                break
            await asyncio.sleep(0)
    return written


async def resumed(
    runtime: Runtime,
    meta: StreamMeta,
    writer: Writer,
    after: int,
    headers: Mapping[str, str] | None = None,
) -> AnswerStream | None:
    """Return the stream of the events after a number, which the writer leaves out.

    It is None if the log does not have this event, or another one may have its number.

    Raises:
        LogError: the log does not answer.
    """
    pending = [writer.start()]
    # A number does not say in which epoch its packet was written. So if the store may have lost
    # packets, those of later epochs may not be the ones that the client has read.
    ambiguous = meta.epochs[0].first_seq if meta.epochs and runtime.log.may_forget else None
    with closing(_following(runtime.log, meta, writer, Cursor(meta.stream_id))) as follower:
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
        return None
    start = b"".join(pending)
    return AnswerStream(runtime, meta, writer, after=position, pending=start, headers=headers)


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
                writer, page = make(), [entry for _, entry in valid_entries(entries)]
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


class AnswerRoutes(Generic[S]):
    """The base of handlers; `runtime` returns the runtime of this event loop."""

    def __init__(self, settings: S, gate: Gate, runtime: Callable[[], Awaitable[Runtime]]) -> None:
        self._settings = settings
        self._gate = gate
        self._runtime = runtime
        self._admission = Admission(gate, runtime)

    async def _admit_once(
        self, asked: StreamRequest, conflict: Callable[[], Problem], expired: Problem
    ) -> Admitted:
        """Admit a request with an id.

        Raises:
            Problem: as `Admission.admit`; `conflict` if another body had its id, `expired` if the
                answer is gone.
        """
        try:
            admitted = await self._admission.admit(asked)
        except (RequestConflict, Problem) as error:
            if isinstance(error, Problem) and error.slug != CONFLICT:
                raise
            raise conflict() from None
        if admitted.meta.body_gone:
            admitted.reader.release()
            raise expired
        return admitted

    def _stream(
        self,
        admitted: Admitted,
        writer: Writer,
        headers: Mapping[str, str] | None = None,
        on_written: Callable[[], None] = lambda: None,
    ) -> AnswerStream:
        """Return an answer from its beginning."""
        response = AnswerStream(
            *(admitted.runtime, admitted.meta, writer),
            pending=writer.start(),
            headers=headers,
            on_written=on_written,
        )
        admitted.runtime.producers.add_reader(admitted.meta, admitted.reader)
        return response

    async def _with_reader(self, admitted: Admitted, work: Awaitable[R], after: int | None) -> R:
        """Return the response that `work` makes, and count its reader.

        `after` is the position of a resume. Without a response the reader is released.
        """
        runtime, meta = admitted.runtime, admitted.meta
        try:
            response = await work
            if response is not None:
                runtime.producers.add_reader(meta, admitted.reader)
        finally:
            admitted.reader.release()  # unless it was handed on
        if response is not None and after is not None:
            runtime.producers.metrics.resumed()
            _log_lines.resumed(meta, after)
        return response
