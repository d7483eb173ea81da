"""The log in one SQLite file: it survives the process, a kill included.

An acknowledged append has been committed to the write-ahead log, that is, written to the file
system: it survives SIGKILL. With `synchronous="NORMAL"` the last commits may be lost when the
machine itself loses power, without harm to the rest; with "FULL" they are not.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from os import PathLike, fspath
from typing import Literal, TypeVar
from uuid import UUID

from ..errors import LogUnavailable, RequestConflict
from . import _sql
from ._tails import Tails
from ._waiters import Waiters, WaitingFollower
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
    StreamLog,
    StreamMeta,
)

__all__ = ["SQLiteStreamLog"]

T = TypeVar("T")

_EXPIRED_AT_ONCE = 50  # streams, so that an expiry does not hold up the appends

DEFAULT_CACHE_BYTES = 32 * 1024 * 1024


class SQLiteStreamLog(StreamLog):
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
            raise ValueError(f'synchronous is "NORMAL" or "FULL", and {synchronous!r} is neither')
        self.lease = lease
        self._path = fspath(path)
        self._clock = clock
        self._synchronous = synchronous
        self._lock_timeout = lock_timeout
        self._cache_bytes = cache_bytes
        self._owners: set[str] = set()
        self._owners_lock = threading.Lock()
        self._worker: Worker | None = None
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

        def run(db: sqlite3.Connection) -> Opened:
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

    async def append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> bool:
        """Append entries; return whether somebody has asked for a cancel."""
        return await self._append(stream_id, epoch, first_seq, entries)

    def begin_append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> "asyncio.Future[bool]":
        """Begin an append."""
        return self._append(stream_id, epoch, first_seq, entries)

    def _append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> "asyncio.Future[bool]":
        added = False

        def run(db: sqlite3.Connection) -> bool:
            nonlocal added
            added, cancel_requested = _sql.add(db, stream_id, epoch, first_seq, entries)
            return cancel_requested

        def after(_: bool) -> None:
            if added:
                self._show(stream_id, first_seq, entries, ended=False)

        return self._submit(run, after)

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream."""
        if not entries:
            raise ValueError("a stream ends with an entry that says so")

        def run(db: sqlite3.Connection) -> bool:
            added, _ = _sql.add(db, stream_id, epoch, first_seq, entries)
            if added:
                _sql.end(db, stream_id, outcome, self._clock())
            return added

        def after(added: bool) -> None:
            if added:
                self._show(stream_id, first_seq, entries, ended=True)

        await self._submit(run, after)

    async def read(self, stream_id: UUID, after_seq: int, limit: int, wait: float) -> Page:
        """Return up to `limit` entries after a position; if there are none, wait."""
        with closing(self._follower(stream_id, after_seq)) as follower:
            return await follower.next(limit, wait)

    def follow(self, stream_id: UUID, after_seq: int) -> Follower:
        """Return a reader of one stream from a position on."""
        return self._follower(stream_id, after_seq)

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

        def run(db: sqlite3.Connection) -> None:
            if _sql.by_id(db, stream_id).outcome is None:
                db.execute(
                    "UPDATE streams SET cancel_requested = 1 WHERE stream_id = ?",
                    (stream_id.bytes,),
                )

        await self._submit(run)

    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        """Renew the leases of streams held with these epochs."""
        wanted = dict(held)

        def run(db: sqlite3.Connection) -> dict[UUID, LeaseState]:
            until = self._clock() + self.lease
            return {id_: _sql.renew(db, id_, epoch, until) for id_, epoch in wanted.items()}

        return await self._submit(run)

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out."""

        def run(db: sqlite3.Connection) -> list[Claim]:
            now = self._clock()
            rows = db.execute(
                "UPDATE streams SET epoch = epoch + 1, lease_until = ? WHERE n IN"
                " (SELECT n FROM streams WHERE outcome IS NULL AND lease_until <= ? LIMIT ?)"
                " RETURNING stream_id, epoch, last_seq",
                (now + self.lease, now, limit),
            ).fetchall()
            claimed = ((UUID(bytes=id_), epoch, last_seq) for id_, epoch, last_seq in rows)
            return [Claim(*stream, _sql.question(db, stream[0])) for stream in claimed]

        return await self._submit(run)

    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds."""
        while await self._expire_some(self._clock() - retention):
            pass
        final = self._clock() - final_retention

        def run(db: sqlite3.Connection) -> None:
            db.execute(
                "DELETE FROM streams WHERE outcome IS NOT NULL AND ended_at <= ? AND body_gone",
                (final,),
            )
            db.execute(
                "DELETE FROM turns WHERE added_at <= ?1 AND NOT EXISTS (SELECT 1 FROM turns later"
                " WHERE later.principal = turns.principal"
                " AND later.session_id = turns.session_id AND later.added_at > ?1)",
                (final,),
            )

        await self._submit(run)

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
            if self._worker is None:
                worker = Worker(self._connect)
                worker.start()
                self._worker = worker
            self._owners.add(owner)

    def _stop(self, owner: str) -> None:
        with self._owners_lock:
            self._owners.discard(owner)
            if self._owners or self._worker is None:
                return
            worker, self._worker = self._worker, None
            worker.stop()
        with self._lock:
            self._tails = Tails(self._cache_bytes)

    def _submit(
        self, run: Callable[[sqlite3.Connection], T], after: Callable[[T], None] | None = None
    ) -> "asyncio.Future[T]":
        if self._worker is None:
            raise LogUnavailable(f"the log {self._path} has not been started")
        return self._worker.submit(run, after)

    def _tails_page(self, stream_id: UUID, after_seq: int, limit: int) -> Page | None:
        return self._tails.page(stream_id, after_seq, limit)

    async def _stored(self, stream_id: UUID, after_seq: int, limit: int) -> Page:
        return await self._submit(lambda db: _sql.page(db, stream_id, after_seq, limit))

    async def _expire_some(self, before: float) -> int:
        def run(db: sqlite3.Connection) -> list[tuple[int, bytes]]:
            rows: list[tuple[int, bytes]] = db.execute(
                "SELECT n, stream_id FROM streams WHERE outcome IS NOT NULL AND NOT body_gone"
                " AND ended_at <= ? LIMIT ?",
                (before, _EXPIRED_AT_ONCE),
            ).fetchall()
            numbers = [(n,) for n, _ in rows]
            db.executemany("DELETE FROM entries WHERE n = ?", numbers)
            db.executemany("UPDATE streams SET body_gone = 1 WHERE n = ?", numbers)
            return rows

        def after(rows: list[tuple[int, bytes]]) -> None:
            with self._lock:
                for _, stream_id in rows:
                    self._tails.drop(UUID(bytes=stream_id))

        rows = await self._submit(run, after)
        return len(rows)

    def _show(
        self, stream_id: UUID, first_seq: int, entries: Sequence[bytes], *, ended: bool
    ) -> None:
        """Let readers see what has been committed."""
        with self._lock:
            self._tails.add(stream_id, first_seq, entries, ended=ended)
            self._waiters.wake(stream_id)

    def _connect(self) -> sqlite3.Connection:
        """Open the file, in the thread that will use it.

        Raises:
            LogUnavailable: it is in use, is something else, or cannot be opened.
        """
        try:
            db = sqlite3.connect(self._path, timeout=self._lock_timeout, isolation_level=None)
        except sqlite3.Error as error:
            raise LogUnavailable(f"the log {self._path} cannot be opened: {error}") from None
        try:
            self._prepare(db)
        except sqlite3.Error as error:
            db.close()
            raise LogUnavailable(self._explain(error)) from None
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        # Exclusive: the first access takes the file and keeps it until the process ends, however
        # it ends. Two processes would each hold half of what the readers wait for.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._check_kind(db)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {self._synchronous}")
        db.execute("BEGIN IMMEDIATE")
        if _sql.pragma(db, "user_version") == 0:
            for statement in _sql.SCHEMA.strip().split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {_sql.APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {_sql.SCHEMA_VERSION}")
        _sql.upgrade(db)
        db.execute("UPDATE streams SET lease_until = 0 WHERE outcome IS NULL")
        db.execute("COMMIT")

    def _check_kind(self, db: sqlite3.Connection) -> None:
        version, kind = _sql.pragma(db, "user_version"), _sql.pragma(db, "application_id")
        tables = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if kind != _sql.APPLICATION_ID and (tables or version):
            raise LogUnavailable(f"{self._path} is a SQLite file, but not a stream log")
        if version not in (0, _sql.SCHEMA_VERSION):
            raise LogUnavailable(
                f"the log {self._path} has schema version {version}, and this release reads "
                f"{_sql.SCHEMA_VERSION}"
            )

    def _explain(self, error: sqlite3.Error) -> str:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return (
                f"the log {self._path} is in use by another process: a SQLite log serves one "
                "process, so start one worker, or give each its own file"
            )
        return f"the log {self._path} cannot be opened: {error}"
