"""The file of the SQLite log: opening it, watching it, and leaving space on its disk.

Full disk. Deleting expired data frees space, but needs some itself: SQLite first writes the changed
pages to its write-ahead log, and copies them to the file at a checkpoint. So the file stops growing
while the disk still has a reserve, and the write-ahead log is copied to the file at once. From then
on no checkpoint needs more space: appends fail, deletes work, and appends use the space that the
deletes free.

Lost file. SQLite continues to write to a file that was deleted or replaced, and that data is lost.
So a commit is acknowledged only if the file is still in place after it.
"""

import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from ..errors import LogUnavailable
from . import _schema, _sql
from ._backup import BackupRequests
from ._sql import LogConnection

logger = logging.getLogger("coreason_client.server")

RESERVE_BYTES = 16 * 1024 * 1024  # kept free on the disk; a quarter of a small disk
WAL_BYTES = 16 * 1024 * 1024  # size to which the write-ahead log is cut after a large commit
# Staged entries are moved when there are this many. Appends wait during a move, and one of this
# size takes a few milliseconds.
MAX_STAGED = 4096
MAX_STAGED_BYTES = 1024 * 1024
_MOVE_RETRY_SECONDS = 1.0  # until the next attempt after a failed move
_SPACE_CHECK_SECONDS = 0.01
# Until the next space check if a commit found no space although the disk has some, as with a quota.
_QUOTA_CHECK_SECONDS = 10.0
_ADVICE = {
    "SQLITE_FULL": (
        "its disk is full (the log leaves {reserve} MiB free): free some space or "
        "shorten `retention`; the log continues when there is space"
    ),
    "SQLITE_READONLY": "it is read-only; this process must be able to write it and its folder",
    "SQLITE_CANTOPEN": (
        "{error}; this process must be able to write the file and to create files in its folder"
    ),
    "SQLITE_CORRUPT": "the file is damaged ({error}); move it away and restart the server",
}


class LogFile:
    """The database of a `Worker`: a file that only this process uses."""

    def __init__(
        self,
        path: str,
        *,
        synchronous: Literal["NORMAL", "FULL"],
        lock_timeout: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._clock = clock
        self._synchronous = synchronous
        self._lock_timeout = lock_timeout
        self._folder: Path | None = None  # None for a database in memory
        self._backups: BackupRequests | None = None  # as above
        self._in_place: dict[str, tuple[int, int]] = {}
        self._limited = False
        self._max_pages = 0  # the limit of SQLite while there is space
        self._space_check_at = 0.0
        self._move_at = 0.0
        self.max_staged = MAX_STAGED
        """The number of staged entries at which they are moved."""

    def connect(self) -> LogConnection:
        """Open the file; call it in the thread that will use the connection.

        Raises:
            LogUnavailable: it is in use, is not a log, or cannot be opened or written.
        """
        try:
            db = sqlite3.connect(
                self.path,
                timeout=self._lock_timeout,
                isolation_level=None,
                factory=LogConnection,
            )
        except sqlite3.Error as error:
            raise LogUnavailable(self._explain(error, "opened")) from None
        try:
            self._prepare(db)
        except sqlite3.Error as error:
            db.close()
            raise LogUnavailable(self._explain(error, "opened")) from None
        except ValueError as error:
            db.close()
            raise LogUnavailable(
                f"the log {self.path} cannot be opened: the file is damaged ({error}); move it "
                "away and restart the server"
            ) from None
        except BaseException:
            db.close()
            raise
        return db

    def problem(self) -> str | None:
        """Return why the file must not be written any more, None while it is in place."""
        for path, known in self._in_place.items():
            try:
                found = os.stat(path)  # noqa: PTH116 - the cheapest call, because it follows each commit
            except (FileNotFoundError, NotADirectoryError):
                return self._lost(path)
            except OSError:  # no permission or an I/O error: the file may still be in place
                continue
            if (found.st_dev, found.st_ino) != known:
                return self._lost(path)
        return None

    @contextmanager
    def transaction(self, connection: LogConnection) -> Iterator[None]:
        """Run the body of `with` in a transaction; roll it back if the body or the commit fails.

        The appends of the body are written before the commit.
        """
        self._begin(connection)
        try:
            yield
            _sql.write_staged(connection)
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise

    def maintain(self, connection: LogConnection) -> None:
        """Move the staged entries if there are many, or if some of them have expired."""
        staged = connection.staged
        due = staged.count >= self.max_staged or staged.size >= MAX_STAGED_BYTES or staged.dropped
        if due and time.monotonic() >= self._move_at and not self._move(connection):
            self._move_at = time.monotonic() + _MOVE_RETRY_SECONDS

    def back_up(self, connection: LogConnection, run_waiting: Callable[[], bool]) -> None:
        """Copy the file if another process has requested it, see `BackupRequests`."""
        if self._backups is not None:
            self._backups.serve(connection, run_waiting)

    def close(self, connection: LogConnection) -> None:
        """Move the staged entries if there is space for it, and close the file."""
        try:
            if connection.staged.count:
                self._move(connection)
        finally:
            connection.close()

    def _move(self, connection: LogConnection) -> bool:
        """Move the staged entries; return False if that failed."""
        reason = ""
        for _ in range(2):  # the handling of a failure may free space in the write-ahead log
            try:
                with self.transaction(connection):
                    _sql.move_staged(connection)
            except sqlite3.Error as error:
                reason = self.failed(connection, error)
            else:
                connection.staged.clear()
                return True
        logger.debug("the staged entries were not moved: %s", reason)
        return False

    def _begin(self, connection: LogConnection) -> None:
        self._check_space(connection)
        if connection.in_transaction:  # an earlier rollback has failed
            _roll_back(connection)
        connection.execute("BEGIN IMMEDIATE")
        if connection.stale:
            _sql.load_staged(connection)

    def _check_space(self, connection: LogConnection) -> None:
        """Stop the growth of the file while its disk has less free space than the reserve."""
        now = time.monotonic()
        if self._folder is None or now < self._space_check_at:
            return
        self._space_check_at = now + _SPACE_CHECK_SECONDS
        try:
            disk = shutil.disk_usage(self._folder)
        except OSError:
            return
        reserve = min(RESERVE_BYTES, disk.total // 4)
        if self._limited and disk.free >= 2 * reserve:
            self._limited = False
            connection.execute(f"PRAGMA max_page_count = {self._max_pages}")
            logger.info("the disk of the log %s has space again", self.path)
        elif not self._limited and disk.free < reserve:
            self._limit_growth(connection)

    def failed(self, connection: LogConnection, error: sqlite3.Error) -> str:
        """Return the message for an error of SQLite; if the disk is full, make deletes possible."""
        if _name(error) == "SQLITE_FULL":
            if self._limited:
                _checkpoint(connection)
            else:
                self._limit_growth(connection)
                self._space_check_at = time.monotonic() + _QUOTA_CHECK_SECONDS
        return self._explain(error, "written or read")

    def _prepare(self, db: LogConnection) -> None:
        # Exclusive: the first access locks the file until the process ends, however it ends. With
        # two processes, readers in one would not learn of appends in the other.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._check_kind(db)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        db.execute(f"PRAGMA synchronous = {self._synchronous}")
        db.execute("BEGIN IMMEDIATE")
        _schema.prepare(db)
        _sql.load_staged(db)
        # Durable streams have some time to be continued, which starts now.
        db.execute(
            "UPDATE streams SET lease_until = CASE WHEN agent_id IS NULL THEN 0 ELSE ? END"
            " WHERE outcome IS NULL",
            (self._clock(),),
        )
        db.execute("COMMIT")
        _schema.probe(db)
        self._watch(db)

    def _watch(self, db: LogConnection) -> None:
        """Record the identity of the file and of its write-ahead log."""
        path: str = db.execute("PRAGMA database_list").fetchone()[2]
        self._folder = Path(path).parent if path else None
        self._backups = BackupRequests(path) if path else None
        self._in_place = {}
        for watched in (path, f"{path}-wal") if path else ():
            try:
                found = Path(watched).stat()
            except FileNotFoundError:
                continue
            self._in_place[watched] = (found.st_dev, found.st_ino)
        self._max_pages = _schema.pragma(db, "max_page_count")
        self._limited = False
        self._space_check_at = 0.0

    def _limit_growth(self, db: LogConnection) -> None:
        self._limited = True
        db.execute("PRAGMA max_page_count = 1")  # SQLite uses the current size instead
        _checkpoint(db)
        logger.warning(
            "the disk of the log %s is nearly full: the file will not grow until there is space",
            self.path,
        )

    def _lost(self, path: str) -> str:
        return (
            f"the file {path} was deleted, moved or replaced while the log was using it; the log "
            "does not write to it any more: restart the server"
        )

    def _check_kind(self, db: LogConnection) -> None:
        version, kind = _schema.pragma(db, "user_version"), _schema.pragma(db, "application_id")
        tables = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if kind != _schema.APPLICATION_ID and (tables or version):
            raise LogUnavailable(f"{self.path} is a SQLite file, but not a stream log")
        if version > _schema.SCHEMA_VERSION:
            raise LogUnavailable(
                f"the log {self.path} has schema version {version}, but this release supports only "
                f"versions up to {_schema.SCHEMA_VERSION}: update it"
            )

    def _explain(self, error: sqlite3.Error, verb: str) -> str:
        name = _name(error)
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return (
                f"the log {self.path} is in use by another process: a SQLite log serves one "
                "process, so start one worker, or give each process its own file"
            )
        if name.startswith("SQLITE_IOERR") and not os.access(self.path, os.W_OK):
            name = "SQLITE_READONLY"  # SQLite cannot lock a read-only file
        names = (known for known in _ADVICE if name == known or name.startswith(f"{known}_"))
        advice = _ADVICE.get(next(names, ""), "{error}")
        reason = advice.format(error=error, reserve=RESERVE_BYTES // 1024**2)
        return f"the log {self.path} cannot be {verb}: {reason}"


def _roll_back(connection: LogConnection) -> None:
    """Roll back a transaction, if it has not ended already."""
    connection.stale = True
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _name(error: sqlite3.Error) -> str:
    name: str = getattr(error, "sqlite_errorname", "")
    return name


def _checkpoint(db: LogConnection) -> None:
    """Copy the write-ahead log to the file if there is space, and restart it from its beginning.

    It is not truncated: deletes need its space, which other programs could take.
    """
    with suppress(sqlite3.Error):
        db.execute("PRAGMA wal_checkpoint(RESTART)")
