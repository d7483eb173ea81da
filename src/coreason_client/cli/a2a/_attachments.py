"""The files and URLs that `--attach` adds to a message."""

import mimetypes
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from coreason_client.a2a import Part

from ..._http._checks import check_url
from ..exits import ExitCode, Failure
from ._ids import encodable

__all__ = ["MAX_ATTACHED_BYTES", "attached_parts"]

MAX_ATTACHED_BYTES = 32 * 1024 * 1024  # of all files of a message together
_BINARY = "application/octet-stream"


def attached_parts(names: Sequence[str]) -> list[Part]:
    """Return the parts for files, URLs and `-`, which is stdin.

    Raises:
        Failure: a file cannot be read, or they are too large together.
        ArgumentError: a URL is invalid.
    """
    if names.count("-") > 1:
        raise Failure("--attach - can be given once: stdin is one file", ExitCode.USAGE)
    return list(_parts(names))


def _parts(names: Sequence[str]) -> Iterator[Part]:
    left = MAX_ATTACHED_BYTES
    for name in names:
        if name.lower().startswith(("http://", "https://")):
            yield _url_part(name)
            continue
        content = _read(name, left + 1)
        if len(content) > left:
            raise _failure(
                name,
                f"the files are larger than {MAX_ATTACHED_BYTES // 1024 // 1024} MiB together;"
                " attach a URL instead",
            )
        left -= len(content)
        yield _file_part(name, content)


def _url_part(url: str) -> Part:
    parts = check_url(url, "--attach", credentials_go_into="a parameter of a signed URL")
    filename = unquote(parts.path).rpartition("/")[2]
    return Part(url=url, filename=filename or None, media_type=_type_of(filename))


def _file_part(name: str, content: bytes) -> Part:
    if name == "-":
        return Part.from_bytes(content, filename="stdin", media_type=_type_of_content(content))
    filename = encodable(Path(name).name)
    return Part.from_bytes(content, filename=filename, media_type=_type_of(filename) or _BINARY)


def _type_of(filename: str) -> str | None:
    media_type, encoding = mimetypes.guess_type(filename)
    # A compressed file is not of the type of its content.
    return f"application/{encoding}" if encoding else media_type


def _type_of_content(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _BINARY
    return _BINARY if "\0" in text else "text/plain"


def _read(name: str, limit: int) -> bytes:
    """Read at most `limit` bytes; a device or a pipe may have no end."""
    try:
        if name == "-":
            return _read_all(sys.stdin.buffer, limit)
        with Path(name).open("rb") as file:
            return _read_all(file, limit)
    except (OSError, ValueError) as error:  # ValueError: the name has a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise _failure(name, reason.lower()) from None


def _read_all(file: BinaryIO, limit: int) -> bytes:
    content = b""
    while (missing := limit - len(content)) and (piece := file.read(missing)):
        content += piece
    return content


def _failure(name: str, reason: str) -> Failure:
    return Failure(f"--attach {name}: {reason}", ExitCode.USAGE)
