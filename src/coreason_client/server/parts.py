"""Parts of artifacts and messages that an agent writes: text, data, files and links.

On the wire they have the shape of a part of A2A 1.0, so an A2A client gets them unchanged.
"""

import mimetypes
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import ArgumentError

__all__ = ["Data", "File", "Link", "PartContent", "dump_parts", "text_of"]


@dataclass(frozen=True, slots=True)
class File:
    """A file with its content; `media_type` is guessed from the name if it is not given."""

    content: bytes
    name: str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A file by its URL, with its name and media type if they are known."""

    url: str
    name: str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Any JSON value; a dict or a list can also be given without this class."""

    value: Any
    media_type: str | None = None


PartContent: TypeAlias = str | Mapping[str, Any] | Sequence[Any] | File | Link | Data
"""A value that an agent may give as a part: a string is text, a dict or a list is data."""


def dump_parts(contents: Iterable[PartContent]) -> list[dict[str, Any]]:
    """Return parts as JSON objects.

    Raises:
        ArgumentError: there is none, or one has another type.
    """
    parts = [_dump(content) for content in contents]
    if not parts:
        raise ArgumentError("parts", "must have at least one part: text, data, a File or a Link")
    return parts


def text_of(parts: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of parts, joined."""
    return "".join(part["text"] for part in parts if "text" in part)


def _dump(content: PartContent) -> dict[str, Any]:
    match content:
        case str():
            return {"text": content}
        case File(data, name, media_type):
            encoded = b64encode(data).decode("ascii")
            return {"raw": encoded} | _about(name, media_type)
        case Link(url, name, media_type):
            return {"url": url} | _about(name, media_type)
        case Data(value, media_type):
            return {"data": value} | _about(None, media_type)
        case Mapping():
            return {"data": dict(content)}
        case bytes() | bytearray():
            raise ArgumentError("parts", "must not be bytes: give a File with a name or media type")
        case Sequence():
            return {"data": list(content)}
    rule = "must be text, a dict, a list, a File, a Link or Data"
    raise ArgumentError("parts", rule, type(content).__name__)


def _about(name: str | None, media_type: str | None) -> dict[str, str]:
    guessed = media_type or (mimetypes.guess_type(name)[0] if name else None)
    members = {"filename": name, "mediaType": guessed}
    return {key: value for key, value in members.items() if value is not None}
