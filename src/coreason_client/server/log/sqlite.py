"""The log in one SQLite file: it survives the process, a kill included.

An acknowledged append has been committed to the write-ahead log, that is, written to the file
system: it survives SIGKILL. With `synchronous="NORMAL"` the last commits may be lost when the
machine itself loses power, without harm to the rest; with "FULL" they are not.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Literal, TypeVar
from uuid import UUID

from ...errors import ArgumentError
from ..errors import LogUnavailable, RequestConflict
from . import _sql
from ._file import LogFile
from ._live import LiveLog, WaitingFollower
from ._rules import check_last_entries
from ._sql import LogConnection
from ._tails import Tails
from ._waiters import Waiters
from ._worker import Worker
from .base import (
    DEFAULT_LEASE,
    Claim,
    Conversation,
    Follower,
    LeaseState,
    NewStream,
    Opened,
    Page,
    StreamMeta,
)

__all__ = ["SQLiteStreamLog"]

T = TypeVar("T")

_EXPIRED_AT_ONCE = 50  # streams or turns, so that an expiry does not hold up the appends

DEFAULT_CACHE_BYTES = 32 * 1024 * 1024


class SQLiteStreamLog(LiveLog):
    """Streams in a file of the standard library's SQLite, for one process at a time."""

    shared = False

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        clock: Callable[[], float] = time.time,
        lease: float = DEFAULT_LEASE,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        lock_timeout: float = 5.0,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise ArgumentError("synchronous", 'must be "NORMAL" or "FULL"', synchronous)
        self.lease = lease
        self._path = fspath(path)
        self._clock = clock
        self._file = LogFile(self._path, synchronous=synchronous, lock_timeout=lock_timeout)
        self._cache_bytes = cache_bytes
        self._owners: set[str] = set()
        self._owners_lock = threading.Lock()
        self._worker: Worker[LogConnection] | None = None
        self._lock = threading.Lock()  # of the two below
        self._waiters = Waiters()
        self._tails = Tails(cache_bytes)

    def __repr__(self) -> str:
        return f"<SQLiteStreamLog {self._path!r}>"

    async def start(self, owner: str) -> None:
        """Open the file, lock it against other processes and end all earlier leases."""
        await asyncio.to_thread(self._start, owner)  # it may wait for the lock

    async def stop(self, owner: str) -> None:
        """Close the file when the last owner stops."""
        await asyncio.to_thread(self._stop, owner)  # it writes the whole file

    async def open(self, stream: NewStream, owner: str) -> Opened:
        """Return the stream of the request, made now if there is none."""

        def run(db: LogConnection) -> Opened:
            known = _sql.by_request(db, stream.principal, stream.request_id)
            if known is not None:
                if known.fingerprint != stream.fingerprint:
                    raise RequestConflict(stream.request_id)
                return Opened(known, created=False)
            now = self._clock()
            db.execute(
                "INSERT INTO streams (stream_id, principal, request_id, fingerprint, epoch,"
                " last_seq, opened_at, cancel_requested, body_gone, lease_until)"
                " VALUES (?, ?, ?, ?, 1, 0, ?, 0, 0, ?)",
                (
                    stream.stream_id.bytes,
                    stream.principal,
                    stream.request_id.bytes,
                    stream.fingerprint,
                    now,
                    now + self.lease,
                ),
            )
            if stream.question:
                db.execute(
                    "INSERT INTO questions (n, question) SELECT n, ? FROM streams"
                    " WHERE stream_id = ?",
                    (stream.question, stream.stream_id.bytes),
                )
            return Opened(_sql.by_id(db, stream.stream_id), created=True)

        return await self._submit(run)

    async def find(self, principal: str, request_id: UUID) -> StreamMeta | None:
        """Return the stream of a request, None when there is none."""
        return await self._submit(lambda db: _sql.by_request(db, principal, request_id))

    def _begin(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> "asyncio.Future[bool]":
        """Begin an append."""
        added = False

        def run(db: LogConnection) -> bool:
            nonlocal added
            added, cancel_requested = _sql.add(db, stream_id, epoch, first_seq, entries)
            return cancel_requested

        def after(_: bool) -> None:
            if added:
                self._show(stream_id, first_seq, entries, ended=False)

        return self._submit(run, after)

    begin_append = _begin

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream."""
        check_last_entries(entries)

        def run(db: LogConnection) -> bool:
            added, _ = _sql.add(db, stream_id, epoch, first_seq, entries)
            if added:
                _sql.end(db, stream_id, first_seq + len(entries) - 1, outcome, self._clock())
            return added

        def after(added: bool) -> None:
            if added:
                self._show(stream_id, first_seq, entries, ended=True)

        await self._submit(run, after)

    def _follower(self, stream_id: UUID, after_seq: int) -> Follower:
        return WaitingFollower(
            stream_id, after_seq, self._lock, self._waiters, self._tails_page, self._stored
        )

    def nudge(self) -> None:
        """Make every `read` that waits return with what there is."""
        with self._lock:
            self._waiters.wake_all()

    async def meta(self, stream_id: UUID) -> StreamMeta:
        """Describe a stream."""
        return await self._submit(lambda db: _sql.by_id(db, stream_id))

    async def request_cancel(self, stream_id: UUID) -> None:
        """Ask the producer to stop."""

        def run(db: LogConnection) -> None:
            if _sql.by_id(db, stream_id).outcome is None:
                _sql.request_cancel(db, stream_id)

        await self._submit(run)

    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        """Renew the leases of streams held with these epochs."""
        wanted = dict(held)

        def run(db: LogConnection) -> dict[UUID, LeaseState]:
            until = self._clock() + self.lease
            return {id_: _sql.renew(db, id_, epoch, until) for id_, epoch in wanted.items()}

        return await self._submit(run)

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out."""

        def run(db: LogConnection) -> list[Claim]:
            now = self._clock()
            return _sql.claim(db, now, now + self.lease, limit)

        return await self._submit(run)

    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds."""
        now = self._clock()
        final = now - final_retention
        bodies = max(now - retention, final)
        await _in_steps(lambda most: self._drop_entries(bodies, most))
        await _in_steps(lambda most: self._submit(lambda db: _sql.drop_streams(db, final, most)))
        await _in_steps(lambda most: self._submit(lambda db: _sql.drop_turns(db, final, most)))

    async def add_turn(self, conversation: Conversation, stream_id: UUID, turn: bytes) -> None:
        """Add what one stream contributed to a conversation."""
        await self._submit(
            lambda db: _sql.add_turn(db, conversation, stream_id, turn, self._clock())
        )

    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        """Return the latest turns of a conversation, oldest first."""
        return await self._submit(lambda db: _sql.turns(db, conversation, limit))

    def _start(self, owner: str) -> None:
        with self._owners_lock:
            if self._worker is not None and self._worker.refusal is not None:
                self._end()  # its thread has ended, and its owners get a new one
            if self._worker is None:
                worker = Worker(self._file, on_end=self.nudge)
                worker.start()
                self._worker = worker
            self._owners.add(owner)

    def _stop(self, owner: str) -> None:
        with self._owners_lock:
            self._owners.discard(owner)
            if not self._owners:
                self._end()

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()
        with self._lock:
            self._tails = Tails(self._cache_bytes)

    def _working(self) -> Worker[LogConnection]:
        """Return the worker.

        Raises:
            LogUnavailable: there is none, or its thread has ended.
        """
        worker = self._worker
        if worker is None:
            raise LogUnavailable(f"the log {self._path} has not been started")
        if worker.refusal is not None:
            raise LogUnavailable(worker.refusal)
        return worker

    def _submit(
        self, run: Callable[[LogConnection], T], after: Callable[[T], None] | None = None
    ) -> "asyncio.Future[T]":
        return self._working().submit(run, after)

    def _tails_page(self, stream_id: UUID, after_seq: int, limit: int) -> Page | None:
        self._working()
        with self._lock:
            return self._tails.page(stream_id, after_seq, limit)

    async def _stored(self, stream_id: UUID, after_seq: int, limit: int) -> Page:
        return await self._submit(lambda db: _sql.page(db, stream_id, after_seq, limit))

    async def _drop_entries(self, ended_until: float, most: int) -> int:
        def run(db: LogConnection) -> list[UUID]:
            return _sql.drop_entries(db, ended_until, most)

        def after(stream_ids: list[UUID]) -> None:
            with self._lock:
                for stream_id in stream_ids:
                    self._tails.drop(stream_id)

        dropped = await self._submit(run, after)
        return len(dropped)

    def _show(
        self, stream_id: UUID, first_seq: int, entries: Sequence[bytes], *, ended: bool
    ) -> None:
        """Let readers see what has been committed."""
        with self._lock:
            self._tails.add(stream_id, first_seq, entries, ended=ended)
            self._waiters.wake(stream_id)


async def _in_steps(step: Callable[[int], Awaitable[int]]) -> None:
    """Repeat a step until it finds nothing; one that fails is tried again with one row at a time.

    On a full disk a small step may succeed where a large one does not.
    """
    most = _EXPIRED_AT_ONCE
    while True:
        try:
            if not await step(most):
                return
        except LogUnavailable:
            if most == 1:
                raise
            most = 1
