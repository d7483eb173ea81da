"""Files with keys or secrets: read within a limit, with a warning if others can read them."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from ..errors import ArgumentError

logger = logging.getLogger("coreason_client.server")

_MAX_BYTES = 1024 * 1024
# A service often reads a file of root that only the group of the service can read.
_OPEN_TO_OTHERS = stat.S_IWGRP | stat.S_IRWXO

Version: TypeAlias = tuple[int, int, int, int] | None
"""Differs after a file was changed or replaced; None if there is no file."""


def read_private_file(
    argument: str, path: Path, *, warns: bool = True, waits: bool = True
) -> tuple[bytes, Version]:
    """Return the content of the file that an argument or option names, and its version.

    With `waits` False, a pipe that nobody writes to is an empty file.

    Raises:
        ArgumentError: the file cannot be read, or is too large.
    """
    try:
        with open(path, "rb", opener=None if waits else _open_at_once) as file:
            status = os.fstat(file.fileno())  # before reading: a later change is noticed
            data = file.read(_MAX_BYTES + 1) or b""  # None: there is nothing in the pipe yet
    except OSError as error:
        raise file_error(argument, path, (error.strerror or str(error)).lower()) from None
    if len(data) > _MAX_BYTES:
        raise file_error(argument, path, "the file is larger than 1 MiB")
    if warns and status.st_mode & _OPEN_TO_OTHERS:
        logger.warning(
            "other users of this machine can read or change %s: run chmod 600 on it", path
        )
    return data, _version(status)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def version_of(path: Path) -> Version:
    """Return the version of a file, None if it cannot be found."""
    try:
        return _version(path.stat())
    except OSError:
        return None


def private_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, without empty lines and comments."""
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        line = raw.strip()
        if line and not line.startswith(b"#"):
            yield number, line


def file_error(argument: str, path: Path, reason: str) -> ArgumentError:
    """Return the error for a file; the reason must not contain anything of it."""
    return ArgumentError(argument, f"{path}: {reason}")


def _version(status: os.stat_result) -> Version:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
