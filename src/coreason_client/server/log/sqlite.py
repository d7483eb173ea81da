"""The log in one SQLite file. It survives the end of the process, also by SIGKILL.

An acknowledged append has been committed to the write-ahead log, that is, written to the file
system. With `synchronous="NORMAL"` a power failure may lose the last commits, but does not damage
the rest; with "FULL" it loses nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Literal
from uuid import UUID

from ...errors import ArgumentError
from ..errors import LogUnavailable
from . import _sql, _sql_claims
from ._file import LogFile
from ._live import LiveLog, LocalFollower
from ._recent_entries import LiveEntries
from ._rules import check_last_entries
from ._sql import LogConnection
from ._sql_tasks import SQLiteTasks
from ._worker import SharedWorker
from .base import (
    DEFAULT_LEASE,
    AgentVersion,
    Claim,
    Conversation,
    Follower,
    LeaseState,
    NewStream,
    Notes,
    Opened,
    Page,
    StreamMeta,
)

__all__ = ["SQLiteStreamLog"]

_EXPIRED_AT_ONCE = 50  # streams or turns: few, because appends wait for each step of an expiry

DEFAULT_CACHE_BYTES = 32 * 1024 * 1024


class SQLiteStreamLog(LiveLog):
    """Streams in a SQLite file, for one process at a time. It needs only the standard library.

    Args:
        path: the file; it is created if it does not exist.
        clock: a function that returns the time in seconds since 1970, for tests.
        lease: the seconds for which a process holds a stream without renewing it.
        synchronous: "FULL" writes every packet to the disk before it is delivered; "NORMAL" may
            lose the last ones when the machine loses power, but not when the process dies.
        lock_timeout: the seconds to wait for another process that still has the file.
        cache_bytes: the memory for the packets of running streams.

    Raises:
        ArgumentError: `synchronous` is neither of them.
    """

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
        self._file = LogFile(
            self._path, synchronous=synchronous, lock_timeout=lock_timeout, clock=clock
        )
        self._live = LiveEntries(cache_bytes)
        self._worker: SharedWorker[LogConnection] = SharedWorker(
            self._path,
            self._file,
            on_end=self.wake_readers,
            on_stopped=self._live.clear,
        )
        self.tasks = SQLiteTasks(self._worker, self._live, clock, lease)

    def __repr__(self) -> str:
        return f"<SQLiteStreamLog {self._path!r}>"

    async def start(self, owner: str) -> None:
        """Open the file, lock it against other processes and end all earlier leases."""
        await asyncio.to_thread(self._worker.start, owner)  # it may wait for the lock

    async def stop(self, owner: str) -> None:
        """Close the file when the last owner stops."""
        await asyncio.to_thread(self._worker.stop, owner)  # closing may write many pages

    async def open(self, stream: NewStream, owner: str) -> Opened:
        """Return the stream of the request; create it if there is none."""

        def run(db: LogConnection) -> Opened:
            now = self._clock()
            return _sql.open_stream(db, stream, now, now + self.lease, None)

        def after(opened: Opened) -> None:
            if opened.created:  # readers need not look for entries in the file
                self._live.add(stream.stream_id, 1, 1, [], ended=False)

        return await self._worker.submit(run, after)

    async def find(self, principal: str, request_id: UUID) -> StreamMeta | None:
        """Return the stream of a request, None if there is none."""
        return await self._worker.submit(lambda db: _sql.find_meta(db, principal, request_id))

    def _begin_append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> "asyncio.Future[bool]":
        """Begin an append; return a future of its result."""
        added = False

        def run(db: LogConnection) -> bool:
            nonlocal added
            added, cancel_requested = _sql.append(db, stream_id, epoch, first_seq, entries, notes)
            return cancel_requested

        def after(_: bool) -> None:
            if added:
                self._live.add(stream_id, epoch, first_seq, entries, ended=False)

        return self._worker.submit(run, after)

    begin_append = _begin_append

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream."""
        check_last_entries(entries)

        def run(db: LogConnection) -> bool:
            added, _ = _sql.append(db, stream_id, epoch, first_seq, entries)
            if added:
                _sql.end_stream(db, stream_id, first_seq + len(entries) - 1, outcome, self._clock())
            return added

        def after(added: bool) -> None:
            if added:
                self._live.add(stream_id, epoch, first_seq, entries, ended=True)

        await self._worker.submit(run, after)

    def _make_follower(self, stream_id: UUID, after_seq: int, after_epoch: int) -> Follower:
        live, position = self._live, (stream_id, after_seq, after_epoch)
        return LocalFollower(*position, live.lock, live.waiters, self._cached_page, self._load_page)

    def wake_readers(self) -> None:
        """Make every waiting `read` return now, with or without entries."""
        self._live.wake_all()

    async def meta(self, stream_id: UUID) -> StreamMeta:
        """Return the description of a stream."""
        return await self._worker.submit(lambda db: _sql.load_meta(db, stream_id))

    async def request_cancel(self, stream_id: UUID) -> None:
        """Ask the producer to stop."""

        def run(db: LogConnection) -> None:
            if _sql.load_meta(db, stream_id).outcome is None:
                _sql.request_cancel(db, stream_id)

        await self._worker.submit(run)

    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        """Renew the leases of streams held with these epochs."""
        wanted = dict(held)

        def run(db: LogConnection) -> dict[UUID, LeaseState]:
            until = self._clock() + self.lease
            return {id_: _sql.renew(db, id_, epoch, until) for id_, epoch in wanted.items()}

        return await self._worker.submit(run)

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out."""

        def run(db: LogConnection) -> list[Claim]:
            now = self._clock()
            return _sql_claims.claim_lost(db, now, now + self.lease, limit)

        return await self._worker.submit(run)

    async def claim_durable(self, owner: str, agent: AgentVersion, limit: int) -> Sequence[Claim]:
        """Take over unfinished durable streams of an agent whose lease ran out."""
        return await self._worker.submit(
            lambda db: _sql_claims.claim_durable(db, agent, self._clock(), self.lease, limit)
        )

    async def claim_held(self, stream_id: UUID, epoch: int, owner: str) -> Claim:
        """Begin the next epoch of a stream that the caller holds with this epoch."""
        return await self._worker.submit(
            lambda db: _sql_claims.claim_held(db, stream_id, epoch, self._clock() + self.lease)
        )

    async def journal(self, stream_id: UUID, after: int = 0) -> Sequence[bytes]:
        """Return notes of a running stream after a number."""
        return await self._worker.submit(lambda db: _sql_claims.journal(db, stream_id, after))

    async def release(self, stream_id: UUID, epoch: int) -> None:
        """Give up a durable stream, so that it can be claimed at once."""
        await self._worker.submit(
            lambda db: _sql_claims.release(db, stream_id, epoch, self._clock())
        )

    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds."""
        now = self._clock()
        final = now - final_retention
        bodies = max(now - retention, final)
        await _in_steps(lambda limit: self._drop_entries(bodies, limit))
        await _in_steps(
            lambda limit: self._worker.submit(lambda db: _sql.drop_streams(db, final, limit))
        )
        await _in_steps(
            lambda limit: self._worker.submit(lambda db: _sql.drop_turns(db, final, limit))
        )

    async def add_turn(
        self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int = 1
    ) -> None:
        """Add the turn of one stream to a conversation."""
        await self._worker.submit(
            lambda db: _sql.add_turn(db, conversation, stream_id, turn, epoch, self._clock())
        )

    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        """Return the latest turns of a conversation, oldest first."""
        return await self._worker.submit(lambda db: _sql.turns(db, conversation, limit))

    def _cached_page(
        self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int
    ) -> Page | None:
        """Return a page of recent entries, None if it must be read from the file."""
        self._worker.check()
        live = self._live
        with live.lock:
            return live.recent.page(stream_id, after_seq, after_epoch, limit)

    async def _load_page(
        self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int
    ) -> Page:
        return await self._worker.submit(
            lambda db: _sql.read_page(db, stream_id, after_seq, after_epoch, limit)
        )

    async def _drop_entries(self, ended_until: float, limit: int) -> int:
        def run(db: LogConnection) -> list[UUID]:
            return _sql.drop_entries(db, ended_until, limit)

        dropped: list[UUID] = await self._worker.submit(run, self._live.drop)
        return len(dropped)


async def _in_steps(step: Callable[[int], Awaitable[int]]) -> None:
    """Repeat a step until it finds nothing; after a failure, try again with one row at a time.

    On a full disk a small step may succeed where a large one fails.
    """
    limit = _EXPIRED_AT_ONCE
    while True:
        try:
            if not await step(limit):
                return
        except LogUnavailable:
            if limit == 1:
                raise
            limit = 1
