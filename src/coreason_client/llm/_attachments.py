"""Bytes and files on disk in messages: their media types, and how they are read.

The first bytes show the type; for other types, such as text, the file name does.
"""

import re
from base64 import b64encode
from pathlib import Path
from typing import Any, NamedTuple

from ._call import mime_type_of
from .errors import LLMRequestError

BINARY = (bytes, bytearray, Path)
"""The types of binary values in messages."""

MAX_FILE_BYTES = 50_000_000
"""The size of the largest file that is read; no provider accepts a larger one in a message."""

# How files of a media type begin; no text begins like these.
_BEGINNINGS = [
    (re.compile(beginning, re.DOTALL), kind)
    for beginning, kind in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF....WEBP", "image/webp"),
        (rb"\0\0..ftyphei", "image/heic"),
        (rb"%PDF-", "application/pdf"),
        (rb"RIFF....WAVE", "audio/wav"),
        (rb"ID3[\2-\4]|\xff[\xfb\xf3\xf2]", "audio/mpeg"),
        (rb"fLaC\0", "audio/flac"),
        (rb"OggS\0", "audio/ogg"),
        (rb"\0\0..ftypM4A", "audio/mp4"),
        (rb"\0\0..ftyp", "video/mp4"),
    )
]


class Attachment(NamedTuple):
    """The data of a part: base64 text, its media type, and the name of its file, if any."""

    media_type: str
    data: str
    name: str | None

    @property
    def url(self) -> str:
        """The `data:` URL."""
        return f"data:{self.media_type};base64,{self.data}"


def attachment(where: str, value: Any, name: str | None = None) -> Attachment:
    """Return bytes, or the content of a file, as data; `where` is its name in errors.

    Raises:
        LLMRequestError: it cannot be read, is empty or too large, or its type is not known.
    """
    if isinstance(value, Path):
        name = name or file_name(value)
    data = read_bytes(where, value)
    kind = _media_type(data) or mime_type_of(name or "")
    if not data:
        raise LLMRequestError(f"{where} must not be empty")
    if kind is None:
        raise LLMRequestError(
            f"{where} is of an unknown type: pass it as a file part, with a filename that has an "
            "extension such as .pdf, or as a URL such as data:application/pdf;base64,…"
        )
    return Attachment(kind, b64encode(data).decode(), name)


def file_name(path: Path) -> str:
    """Return the name of a file as valid Unicode."""
    return path.name.encode("utf-8", "replace").decode()


def read_bytes(where: str, value: Any) -> bytes:
    """Return the bytes of a binary value.

    Raises:
        LLMRequestError: the file cannot be read, or is too large.
    """
    if not isinstance(value, Path):
        return bytes(value)
    try:
        if not value.is_file():  # another kind, such as a pipe, might never end
            raise LLMRequestError(f"{where} must be a file, and '{value}' is none")
        with value.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise LLMRequestError(f"{where} cannot be read: {error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise LLMRequestError(
            f"{where} must be at most {MAX_FILE_BYTES:,} bytes, and '{value}' is larger: upload "
            "it to the provider, and pass its file_id"
        )
    return data


def _media_type(data: bytes) -> str | None:
    return next((kind for beginning, kind in _BEGINNINGS if beginning.match(data)), None)
