"""An ARTIFACT event of an agent service as lines of text. No I/O."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["artifact_lines"]


def artifact_lines(event: Mapping[str, Any]) -> list[str] | None:
    """Return the lines for an artifact, None for any other event; content of files is left out."""
    data = event.get("data")
    if event.get("type") != "ARTIFACT" or not isinstance(data, dict):
        return None
    parts = data.get("parts")
    if not isinstance(parts, list):
        return None
    name = data.get("name")
    title = name if isinstance(name, str) and name else "artifact"
    return [f"{title}: {line}" for part in parts for line in _part_lines(part)]


def _part_lines(part: Any) -> Iterator[str]:
    if not isinstance(part, dict):
        return
    if isinstance(part.get("text"), str):
        yield part["text"]
    elif "data" in part:
        yield json.dumps(part["data"], ensure_ascii=False)
    elif isinstance(part.get("url"), str):
        yield part["url"]
    else:
        about = [part.get("filename"), part.get("mediaType")]
        yield " ".join(["file", *(text for text in about if isinstance(text, str))])
