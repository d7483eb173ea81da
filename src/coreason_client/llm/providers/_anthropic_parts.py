"""The content of messages in Anthropic's Messages API: text, images and documents. Pure."""

from collections.abc import Mapping
from typing import Any

from .._parts import data_of, is_text, text_of
from .._profile import Profile

__all__ = ["content_blocks", "part_problem", "text_block"]

_MEDIA_TYPES: Mapping[str, str] = {"image/jpg": "image/jpeg"}
_PDF = "application/pdf"


def part_problem(part: Mapping[str, Any], profile: Profile) -> str | None:
    """Return why a part cannot be sent and what to do instead, None if it can be sent."""
    if part["type"] == "input_audio":
        return f"which {profile.name} does not accept: send a transcript as a text part"
    return _file_problem(part["file"], profile) if part["type"] == "file" else None


def content_blocks(content: Any) -> list[dict[str, Any]]:
    """Return the blocks of a content, without blank text."""
    if not isinstance(content, list):
        return [text_block(content)] if content and content.strip() else []
    return [_part(part) for part in content if part["type"] != "text" or part["text"].strip()]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "file":
        return _file(part["file"])
    return text_block(part["text"]) if part["type"] == "text" else _image(part["image_url"]["url"])


def text_block(content: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": content}


def _image(url: str) -> dict[str, Any]:
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind = head.removeprefix("data:").partition(";")[0].lower()
    media_type = _MEDIA_TYPES.get(kind, kind)
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def _file_problem(file: Mapping[str, Any], profile: Profile) -> str | None:
    found = data_of(file.get("file_data", ""))
    if found is None or found[0] == _PDF or found[0].startswith("image/"):
        return None
    if not is_text(found[0]):
        return (
            f"but {profile.name} accepts only PDF, text and image files, got {found[0]}: convert "
            "the file to PDF or text"
        )
    if text_of(found[1]) is None:
        return f"but {profile.name} accepts only text in UTF-8: convert the file"
    return None


def _file(file: Mapping[str, Any]) -> dict[str, Any]:
    found = data_of(file.get("file_data", ""))
    if found is not None and found[0].startswith("image/"):
        return _image(file["file_data"])
    document: dict[str, Any] = {"type": "document", "source": _source(file, found)}
    return {**document, "title": file["filename"]} if "filename" in file else document


def _source(file: Mapping[str, Any], found: tuple[str, str] | None) -> dict[str, Any]:
    if found is None:
        if "file_id" in file:
            return {"type": "file", "file_id": file["file_id"]}
        return {"type": "url", "url": file["file_url"]}
    kind, data = found
    if kind == _PDF:
        return {"type": "base64", "media_type": kind, "data": data}
    return {"type": "text", "media_type": "text/plain", "data": text_of(data)}
