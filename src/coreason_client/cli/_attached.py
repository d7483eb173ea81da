"""Files and URLs that are attached to a message: reading them, and the type of their content.

The type of a file follows from its first bytes, otherwise from its name. A file that is UTF-8 text
is sent as text, with its name above it.
"""

import mimetypes
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from .._http._checks import check_url
from ._text import encodable
from .exits import ExitCode, Failure, reason_of

# The first bytes of a file, the offset of further bytes, and these bytes.
_MAGIC: tuple[tuple[bytes, int, bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"GIF87a", 0, b"", "image/gif"),
    (b"GIF89a", 0, b"", "image/gif"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"RIFF", 8, b"WAVE", "audio/wav"),
    (b"ID3", 0, b"", "audio/mpeg"),
    (b"\xff\xfb", 0, b"", "audio/mpeg"),
    (b"\xff\xf3", 0, b"", "audio/mpeg"),
    (b"fLaC", 0, b"", "audio/flac"),
    (b"OggS", 0, b"", "audio/ogg"),
    (b"", 4, b"ftypM4A", "audio/mp4"),
    (b"%PDF-", 0, b"", "application/pdf"),
)


def type_of_content(content: bytes) -> str | None:
    """Return the media type that the first bytes show, None if they show none."""
    for start, offset, further, media_type in _MAGIC:
        if content.startswith(start) and content[offset : offset + len(further)] == further:
            return media_type
    return None


def text_in(content: bytes) -> str | None:
    """Return the text of a file, None if it is not UTF-8 or contains null characters."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


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
        raise AttachFailure(name, reason_of(error)) from None


def _read_all(file: BinaryIO, limit: int) -> bytes:
    content = b""
    while (missing := limit - len(content)) and (piece := file.read(missing)):
        content += piece
    return content


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, below its name."""

    text: str


@dataclass(frozen=True, slots=True)
class FileBytes:
    """The bytes of a file that is not text."""

    media_type: str
    content: bytes


def file_content(attached: Attached, content: bytes) -> FileText | FileBytes:
    """Return the content of a file with its type.

    Raises:
        AttachFailure: the file is empty, or its type is unknown.
    """
    if not content:
        raise AttachFailure(attached.name, "the file is empty")
    media_type = type_of_content(content)
    if media_type is None and (text := text_in(content)) is not None:
        return FileText(f"File {attached.filename}:\n\n{text}")
    media_type = media_type or type_of_name(attached.filename)
    if media_type is None or media_type.startswith("text/"):
        raise AttachFailure(
            attached.name,
            "the file is neither UTF-8 text nor of a known type; give it a name such as report.pdf",
        )
    return FileBytes(media_type, content)
