"""Parts of A2A messages and artifacts as JSON objects. No I/O."""

from collections.abc import Iterable
from typing import Any

__all__ = ["merge_texts"]


def merge_texts(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return parts with neighbours that are only text joined: an answer is one text."""
    merged: list[dict[str, Any]] = []
    texts: list[str] = []
    for part in parts:
        if part.keys() == {"text"}:
            texts.append(part["text"])
            continue
        if texts:
            merged.append({"text": "".join(texts)})
            texts = []
        merged.append(part)
    if texts:
        merged.append({"text": "".join(texts)})
    return merged
