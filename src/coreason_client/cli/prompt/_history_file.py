"""The lines that were typed at the prompt, in a file of the user: one JSON string per line.

Several processes may use the file. Each line is appended with one write, under a lock where the
system has one. A file that grows too large is replaced by one with its latest lines; a process that
waited for the lock of the old file then opens the new one. Only the user can read the file. If it
cannot be used, the lines are kept in memory, and a warning is logged once.
"""

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger("coreason_client.cli")

MAX_LINES = 1000
MAX_BYTES = 1024 * 1024
_MAX_LINE = 64 * 1024  # characters; a longer paste is not worth keeping


class HistoryFile:
    """The file; without a path there is none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last: str | None = None

    def load(self) -> list[str]:
        """Return the lines, the oldest first."""
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                found = _parse(file.read(2 * MAX_BYTES))
        except FileNotFoundError:
            found = []
        except OSError as error:
            self._give_up(error)
            found = []
        self._last = found[-1] if found else None
        return found

    def append(self, text: str) -> None:
        """Add a line, unless it is the same as the one before."""
        if self._path is None or text == self._last or len(text) > _MAX_LINE:
            return
        self._last = text
        line = json.dumps(text).encode() + b"\n"
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._path) as fd:
                os.write(fd, line)
                if os.fstat(fd).st_size > MAX_BYTES:
                    _shorten(self._path)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        logger.warning("the history of the prompt is not kept in %s: %s", self._path, error)
        self._path = None


def _parse(data: bytes) -> list[str]:
    """Return the texts of a file; damaged lines are left out."""
    found = []
    for line in data.splitlines()[-MAX_LINES:]:
        try:
            text = json.loads(line)
        except ValueError:
            continue
        if isinstance(text, str):
            found.append(text)
    return found


def _shorten(path: Path) -> None:
    """Replace the file by one with the latest lines, at most half of the limit."""
    lines: list[bytes] = []
    size = 0
    for line in reversed(path.read_bytes().splitlines(keepends=True)[-MAX_LINES:]):
        size += len(line)
        if size > MAX_BYTES // 2:
            break
        lines.insert(0, line)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(b"".join(lines))
    new.replace(path)


if sys.platform == "win32":

    @contextmanager
    def _locked(path: Path) -> Iterator[int]:
        fd = _open(path)
        try:
            yield fd
        finally:
            os.close(fd)

else:
    import fcntl

    @contextmanager
    def _locked(path: Path) -> Iterator[int]:
        """Open the file for appending, and hold its lock."""
        while True:
            fd = _open(path)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if _is_still(path, fd):
                    yield fd
                    return
            finally:
                os.close(fd)

    def _is_still(path: Path, fd: int) -> bool:
        """Return False if another process has replaced the file before this one had its lock."""
        try:
            return os.path.samestat(os.fstat(fd), path.stat())
        except FileNotFoundError:
            return False


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
