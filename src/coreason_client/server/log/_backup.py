"""A copy of a SQLite log, also while a server uses the file.

A server locks its file, and part of its data is in the write-ahead log. So only the connection of
the server can make a consistent copy: another process asks for it with a request, a file beside the
log that names an empty file to copy to. The thread of the log copies a few pages at a time between
its commits, and SQLite adds what is committed meanwhile to the copy. The server reports in a second
file. A request is valid while the process that wrote it is alive, which renews its time.
"""

import json
import logging
import os
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from ..errors import LogUnavailable
from ._schema import APPLICATION_ID, pragma

logger = logging.getLogger("coreason_client.server")

_PAGES_PER_STEP = 64  # 256 KiB: appends wait for one step
_CHECK_SECONDS = 0.25  # between two looks at the request
_ABANDONED_SECONDS = 15.0  # since the request was renewed
_RENEWAL_SECONDS = 1.0
_POLL_SECONDS = 0.05
_ACCEPT_SECONDS = 10.0  # until the server has begun
_STALL_SECONDS = 60.0  # without any report of the server


class _Ended(Exception):
    """The copy is not wanted any more, or the log is being stopped."""


class BackupRequests:
    """The server's side: looks for a request and makes the copy, in the thread of the log."""

    def __init__(self, path: str) -> None:
        self._request, self._report = _files(path)
        self._check_at = 0.0

    def serve(self, connection: sqlite3.Connection, run_waiting: Callable[[], bool]) -> None:
        """Make a copy if one is requested.

        `run_waiting` is called between two steps; it returns False when the log is being stopped.
        """
        if not self._is_due() or (request := self._read()) is None:
            return
        number, target = request
        logger.info("copying the log to %s", target)
        try:
            self._copy(connection, number, target, run_waiting)
        except (_Ended, OSError, sqlite3.Error) as error:
            logger.warning("the log was not copied to %s: %s", target, error)
            self._write(number, error=str(error))
        else:
            logger.info("copied the log to %s", target)
            self._write(number, done=True)

    def _copy(
        self,
        connection: sqlite3.Connection,
        number: str,
        target: str,
        run_waiting: Callable[[], bool],
    ) -> None:
        def between(_status: int, remaining: int, total: int) -> None:
            if not run_waiting():
                raise _Ended("the server is being stopped")
            if self._is_due():
                if self._read() != (number, target):
                    raise _Ended("the request was withdrawn")
                self._write(number, copied=total - remaining, pages=total)

        if Path(target).stat().st_size:
            raise _Ended(f"{target} is not empty")
        self._write(number, copied=0)
        with closing(_connect(target, "rw")) as copy:
            # The process that asked for the copy writes it to the disk.
            copy.execute("PRAGMA journal_mode = OFF")
            copy.execute("PRAGMA synchronous = OFF")
            connection.backup(copy, pages=_PAGES_PER_STEP, progress=between)

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._check_at:
            return False
        self._check_at = now + _CHECK_SECONDS
        return True

    def _read(self) -> tuple[str, str] | None:
        """Return the number and the target of a valid request that has no result yet."""
        try:
            found = self._request.stat()
            if time.time() - found.st_mtime > _ABANDONED_SECONDS:
                self._request.unlink()
                return None
            if not _is_trusted(found.st_uid):
                return None
            request = json.loads(self._request.read_text(encoding="utf-8"))
            number, target = str(request["id"]), str(request["target"])
        except (OSError, ValueError, KeyError, TypeError):  # none, or not complete yet
            return None
        report = _read_report(self._report, number)
        return None if "done" in report or "error" in report else (number, target)

    def _write(self, number: str, **state: object) -> None:
        part = self._report.with_name(f"{self._report.name}.part")
        with suppress(OSError):
            part.write_text(json.dumps({"id": number, **state}), encoding="utf-8")
            part.replace(self._report)


def back_up(source: Path, target: Path, timeout: float) -> int:
    """Copy a SQLite log to a new file, whether a server uses it or not; return the size.

    The target appears when the copy is complete and on the disk.

    Raises:
        FileExistsError: the target exists.
        LogUnavailable: the source is not a log, or the copy failed or took too long.
        OSError: a file cannot be read or written.
    """
    source, deadline = source.resolve(strict=True), time.monotonic() + timeout
    if target.exists():
        raise FileExistsError(str(target))
    with _empty_file(target.absolute(), source) as part:
        while not (_copy_unused(source, part) or _ask_server(source, part, deadline)):
            pass
        _check(part, source)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        size = part.stat().st_size
        try:
            target.hardlink_to(part)  # unlike a rename, it never replaces a file
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if target.exists():
                raise FileExistsError(str(target)) from None
            part.rename(target)
        _sync_folder(target.absolute().parent)
    return size


@contextmanager
def _empty_file(target: Path, source: Path) -> Iterator[Path]:
    """Create a file beside the target which the server can write; remove it at the end."""
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    part.touch(mode=0o600, exist_ok=False)
    try:
        if sys.platform != "win32" and os.geteuid() == 0:
            owner = source.stat()
            os.chown(part, owner.st_uid, owner.st_gid)
        yield part
    finally:
        part.unlink(missing_ok=True)


def _copy_unused(source: Path, part: Path) -> bool:
    """Copy a log that no server uses; return False if one does."""
    try:
        with (
            closing(_connect(str(source), "ro")) as log,
            closing(_connect(str(part), "rw")) as copy,
        ):
            copy.execute("PRAGMA journal_mode = OFF")
            # Reads first, because `backup` would wait for a locked file without a limit.
            log.execute("BEGIN")
            pragma(log, "schema_version")
            log.backup(copy)  # one step, so that it is one state of the log
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return False
        raise LogUnavailable(f"the log {source} cannot be copied: {error}") from None
    return True


def _ask_server(source: Path, part: Path, deadline: float) -> bool:
    """Ask the server for the copy; return False if the log is not in use any more."""
    request, report = _files(str(source))
    number = uuid.uuid4().hex
    try:
        _create_request(request, json.dumps({"id": number, "target": str(part)}))
        return _wait(source, request, report, number, deadline)
    finally:
        # Also if Ctrl-C came just after it was created; but not the request of another backup.
        with suppress(FileNotFoundError):
            if number in request.read_text(encoding="utf-8"):
                request.unlink()
                report.unlink(missing_ok=True)


def _wait(source: Path, request: Path, report: Path, number: str, deadline: float) -> bool:
    state: dict[str, object] = {}
    now = changed = renewed = time.monotonic()
    while now < deadline:
        found = _read_report(report, number)
        if "error" in found:
            raise LogUnavailable(f"the server did not copy the log {source}: {found['error']}")
        if "done" in found:
            return True
        if found != state:
            state, changed = found, now
        elif now - changed > (_STALL_SECONDS if state else _ACCEPT_SECONDS):
            if not state and not _is_in_use(source):
                return False
            raise LogUnavailable(
                f"the process that uses the log {source} does not answer: it must be a server of "
                "this release or a later one, that runs as the same user"
            )
        if now - renewed > _RENEWAL_SECONDS:
            os.utime(request)
            renewed = now
        time.sleep(_POLL_SECONDS)
        now = time.monotonic()
    raise LogUnavailable(f"the log {source} was not copied in time")


def _create_request(request: Path, text: str) -> None:
    for _ in range(2):
        try:
            with request.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            with suppress(FileNotFoundError):
                if time.time() - request.stat().st_mtime < _ABANDONED_SECONDS:
                    break
                request.unlink()
        else:
            return
    raise LogUnavailable("another backup of this log is running")


def _is_in_use(source: Path) -> bool:
    try:
        with closing(_connect(str(source), "ro")) as log:
            pragma(log, "schema_version")
    except sqlite3.Error:
        return True
    return False


def _check(part: Path, source: Path) -> None:
    # Immutable: SQLite creates no files beside it.
    with closing(_connect(str(part), "ro&immutable=1")) as copy:
        try:
            is_log = pragma(copy, "application_id") == APPLICATION_ID
            problem = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.Error as error:
            is_log, problem = True, str(error)
    if not is_log:
        raise LogUnavailable(f"{source} is not a stream log")
    if problem != "ok":
        raise LogUnavailable(f"the log {source} is damaged: {problem}")


def _connect(path: str, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(path)}?mode={mode}", uri=True, timeout=0, isolation_level=None
    )


def _files(path: str) -> tuple[Path, Path]:
    return Path(f"{path}-backup"), Path(f"{path}-backup-report")


def _read_report(report: Path, number: str) -> dict[str, object]:
    """Return the report for a request, empty if there is none."""
    with suppress(OSError, ValueError):
        found = json.loads(report.read_text(encoding="utf-8"))
        if isinstance(found, dict) and found.get("id") == number:
            return found
    return {}


def _is_trusted(uid: int) -> bool:
    """Return True for this user and root: a request names a file that the server writes."""
    return not hasattr(os, "geteuid") or uid in (os.geteuid(), 0)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system can do it
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
