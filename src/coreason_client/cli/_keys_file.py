"""The file of `--api-keys-file`: one key per line, optionally a space and the owner's name."""

import re
from collections.abc import Mapping
from pathlib import Path

from ._private_file import file_failure, private_lines, read_private_file
from .exits import Failure

__all__ = ["parse_keys", "read_keys_file"]

_OPTION = "--api-keys-file"


def read_keys_file(path: Path) -> Mapping[str, str]:
    """Return the owner of each key, "" if it has none.

    Raises:
        Failure: the file cannot be read, or a line is invalid.
    """
    return parse_keys(path, read_private_file(_OPTION, path))


def parse_keys(path: Path, data: bytes) -> Mapping[str, str]:
    """Return the owner of each key. Messages give line numbers, never the content of a line.

    Raises:
        Failure: a line is invalid, or there is no key.
    """
    keys: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in private_lines(data):
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
    return file_failure(_OPTION, path, reason)
