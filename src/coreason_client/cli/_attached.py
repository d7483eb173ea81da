"""Reads the files and URLs that `--attach` adds to a message."""

import mimetypes
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from .._http._checks import check_url
from ._text import encodable
from .exits import ExitCode, Failure

__all__ = [
    "MAX_ATTACHED_BYTES",
    "AttachFailure",
    "Attached",
    "read_attached",
    "type_of_name",
]

MAX_ATTACHED_BYTES = 32 * 1024 * 1024  # of all files of a message together


@dataclass(frozen=True, slots=True)
class Attached:
    """A file with its `content`, or a URL, whose `content` is None."""

    name: str
    """The argument: a path, a URL, or `-` for stdin."""

    filename: str
    """The last component of the name; empty if a URL has none."""

    content: bytes | None


class AttachFailure(Failure):
    """Something cannot be attached; `name` is the argument, `reason` says why."""

    def __init__(self, name: str, reason: str, option: str = "--attach") -> None:
        super().__init__(f"{option} {name}: {reason}", ExitCode.USAGE)
        self.name = name
        self.reason = reason


def read_attached(names: Sequence[str], before: Sequence[Attached] = ()) -> list[Attached]:
    """Read files, URLs and `-`, which is stdin; URLs are not fetched.

    `before` is what the message already has; it counts for the limit.

    Raises:
        Failure: a file cannot be read, or they are too large together.
        ArgumentError: a URL is invalid.
    """
    if names.count("-") > 1:
        raise Failure("--attach - can be given once: stdin is one file", ExitCode.USAGE)
    return list(_attached(names, sum(len(one.content or b"") for one in before)))


def type_of_name(filename: str) -> str | None:
    """Return the media type of a file by its name, None if it is not known."""
    media_type, encoding = mimetypes.guess_type(filename)
    # A compressed file is not of the type of its content.
    return f"application/{encoding}" if encoding else media_type


def _attached(names: Sequence[str], used: int) -> Iterator[Attached]:
    left = MAX_ATTACHED_BYTES - used
    for name in names:
        if name.lower().startswith(("http://", "https://")):
            yield _url(name)
            continue
        content = _read(name, left + 1)
        if len(content) > left:
            raise AttachFailure(
                name,
                f"the files are larger than {MAX_ATTACHED_BYTES // 1024 // 1024} MiB together;"
                " attach a URL instead",
            )
        left -= len(content)
        yield Attached(name, "stdin" if name == "-" else encodable(Path(name).name), content)


def _url(url: str) -> Attached:
    parts = check_url(url, "--attach", credentials_go_into="a parameter of a signed URL")
    return Attached(url, unquote(parts.path).rpartition("/")[2], None)


def _read(name: str, limit: int) -> bytes:
    """Read at most `limit` bytes; a device or a pipe may have no end."""
    try:
        if name == "-":
            return _read_all(sys.stdin.buffer, limit)
        with Path(name).open("rb") as file:
            return _read_all(file, limit)
    except (OSError, ValueError) as error:  # ValueError: the name has a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise AttachFailure(name, reason.lower()) from None


def _read_all(file: BinaryIO, limit: int) -> bytes:
    content = b""
    while (missing := limit - len(content)) and (piece := file.read(missing)):
        content += piece
    return content
