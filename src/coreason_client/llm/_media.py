"""Images and audio in an answer, in the same form for every provider. Pure."""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ._json import text
from .types import Media

__all__ = ["audio_of", "image_at", "joined_audio", "media_of"]

_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^,]*?)?;base64,", re.ASCII)


def media_of(mime_type: str, *, data: str = "", url: str = "") -> Media:
    """Return a media item; its type follows from the MIME type."""
    media: Media = {"type": _kind(mime_type)}
    if mime_type:
        media["mime_type"] = mime_type
    if data:
        media["data"] = data
    if url:
        media["url"] = url
    return media


def image_at(url: str) -> Media:
    """Return the image at a URL, or inside a `data:` URL."""
    match = _DATA_URL.match(url)
    if match is None:
        return {"type": "image", "url": url}
    media: Media = {"type": "image", "data": url[match.end() :]}
    if match[1]:
        media["mime_type"] = match[1]
    return media


def audio_of(audio: Mapping[str, Any]) -> list[Media]:
    """Return the audio of a message of OpenAI; empty without data and transcript."""
    return joined_audio([audio])


def joined_audio(pieces: Sequence[Mapping[str, Any]]) -> list[Media]:
    """Join the pieces of audio in a stream of OpenAI."""
    data = _joined([text(piece.get("data")) for piece in pieces])
    transcript = "".join(text(piece.get("transcript")) for piece in pieces)
    if not data and not transcript:
        return []
    media: Media = {"type": "audio"}
    if data:
        media["data"] = data
    if transcript:
        media["transcript"] = transcript
    if id_ := next(filter(None, (text(piece.get("id")) for piece in pieces)), ""):
        media["id"] = id_
    return [media]


def _joined(pieces: Sequence[str]) -> str:
    """Join base64 texts, each of which may be padded."""
    if not any("=" in piece for piece in pieces[:-1]):
        return "".join(pieces)
    try:
        return b64encode(b"".join(map(b64decode, pieces))).decode()
    except ValueError:
        return "".join(pieces)


def _kind(mime_type: str) -> Literal["image", "audio", "video", "file"]:
    match mime_type.partition("/")[0].lower():
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "file"
