"""Files with keys or secrets: read within a limit, with a warning if others can read them."""

import logging
import stat
from collections.abc import Iterator
from pathlib import Path

from .exits import ExitCode, Failure

__all__ = ["file_failure", "private_lines", "read_private_file"]

logger = logging.getLogger("coreason_client.cli")

_MAX_BYTES = 1024 * 1024


def read_private_file(option: str, path: Path) -> bytes:
    """Return the content of the file that an option names.

    Raises:
        Failure: the file cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise file_failure(option, path, (error.strerror or str(error)).lower()) from None
    if len(data) > _MAX_BYTES:
        raise file_failure(option, path, "the file is larger than 1 MiB")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        logger.warning(
            "other users of this machine can read or change %s: run chmod 600 on it", path
        )
    return data


def private_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, without empty lines and comments."""
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        line = raw.strip()
        if line and not line.startswith(b"#"):
            yield number, line


def file_failure(option: str, path: Path, reason: str) -> Failure:
    """Return the error for a file; the reason must not contain anything of it."""
    return Failure(f"{option} {path}: {reason}", ExitCode.USAGE)
