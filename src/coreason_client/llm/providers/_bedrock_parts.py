"""The content of messages in Bedrock's Converse API: text, images and documents. Pure.

Images and documents are sent as data; Bedrock fetches no URLs.
"""

import re
from collections.abc import Mapping
from typing import Any

from .._parts import data_of
from .._profile import Profile

__all__ = ["content_blocks", "part_problem"]

_IMAGE_FORMATS: Mapping[str, str] = {
    "image/gif": "gif",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/png": "png",
    "image/webp": "webp",
}
_DOCUMENT_FORMATS: Mapping[str, str] = {
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}
_NOT_IN_DOCUMENT_NAME = re.compile(r"[^a-zA-Z0-9()\[\]-]+", re.ASCII)
_MAX_DOCUMENT_NAME = 200


def part_problem(part: Mapping[str, Any], profile: Profile) -> str | None:
    """Return why a part cannot be sent and what to do instead, None if it can be sent."""
    if part["type"] == "input_audio":
        return f"which {profile.name} does not accept: send a transcript as a text part"
    found = data_of(_url(part))
    if found is None:
        return f"but {profile.name} fetches nothing: load it and pass its data"
    kind = found[0].lower()
    if part["type"] == "image_url":
        if kind in _IMAGE_FORMATS:
            return None
        return (
            f"but {profile.name} accepts only GIF, JPEG, PNG and WebP images, got {kind}: convert "
            "the image"
        )
    if kind in _DOCUMENT_FORMATS or kind in _IMAGE_FORMATS:
        return None
    accepted = ", ".join(sorted(_DOCUMENT_FORMATS.values()))
    return f"but {profile.name} accepts only {accepted} and images, got {kind}: convert the file"


def content_blocks(content: Any) -> list[dict[str, Any]]:
    """Return the blocks of a content, without blank text."""
    if not isinstance(content, list):
        return [{"text": content}] if content and content.strip() else []
    return [_block(part) for part in content if part["type"] != "text" or part["text"].strip()]


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"text": part["text"]}
    kind, data = data_of(_url(part)) or ("", "")
    source = {"bytes": data}
    if (image := _IMAGE_FORMATS.get(kind.lower())) is not None:
        return {"image": {"format": image, "source": source}}
    form, name = (
        _DOCUMENT_FORMATS.get(kind.lower(), "txt"),
        _document_name(part["file"]["filename"]),
    )
    return {"document": {"format": form, "name": name, "source": source}}


def _document_name(filename: str) -> str:
    """Return a name in which all characters are accepted."""
    stem = filename.rpartition(".")[0] or filename
    return _NOT_IN_DOCUMENT_NAME.sub(" ", stem).strip()[:_MAX_DOCUMENT_NAME] or "document"


def _url(part: Mapping[str, Any]) -> str:
    """Return the URL of an image or a file, empty if it is not data."""
    if part["type"] == "image_url":
        return str(part["image_url"]["url"])
    return str(part["file"].get("file_data", ""))
