"""The file of `--api-keys-file`: one key per line, optionally a space and the owner's name."""

import logging
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from .exits import ExitCode, Failure

__all__ = ["parse_keys", "read_keys_file"]

logger = logging.getLogger("coreason_client.cli")

_MAX_BYTES = 1024 * 1024


def read_keys_file(path: Path) -> Mapping[str, str]:
    """Return the owner of each key, "" if it has none.

    Raises:
        Failure: the file cannot be read, or a line is invalid.
    """
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _failure(path, (error.strerror or str(error)).lower()) from None
    if len(data) > _MAX_BYTES:
        raise _failure(path, "the file is larger than 1 MiB")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        logger.warning(
            "other users of this machine can read or change %s: run chmod 600 on it", path
        )
    return parse_keys(path, data)


def parse_keys(path: Path, data: bytes) -> Mapping[str, str]:
    """Return the owner of each key. Messages give line numbers, never the content of a line.

    Raises:
        Failure: a line is invalid, or there is no key.
    """
    keys: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith(b"#"):
            continue
        key, owner = _parse_line(path, number, line)
        if key in keys:
            raise _failure(path, f"line {number} has the same key as line {lines[key]}")
        keys[key], lines[key] = owner, number
    if not keys:
        raise _failure(path, "the file contains no key")
    return keys


def _parse_line(path: Path, number: int, line: bytes) -> tuple[str, str]:
    try:
        key, *rest = re.split(r"[ \t]+", line.decode(), maxsplit=1)
    except UnicodeDecodeError:
        raise _failure(path, f"line {number} is not UTF-8") from None
    owner = "".join(rest)
    if not (key.isascii() and key.isprintable()):
        raise _failure(path, f"line {number}: a key must consist of printable ASCII characters")
    if not owner.isprintable():
        raise _failure(path, f"line {number}: a name must consist of printable characters")
    return key, owner


def _failure(path: Path, reason: str) -> Failure:
    return Failure(f"--api-keys-file {path}: {reason}", ExitCode.USAGE)
