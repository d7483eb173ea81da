"""What every way of showing an answer makes of its events."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from coreason_manifest.definitions.presentation import CitationItem

__all__ = ["Sources", "text_of", "usage_of", "usage_words"]


def text_of(data: object) -> str:
    """Return the text of a thought or a block, under whatever name an agent has sent it."""
    if not isinstance(data, dict):
        return ""
    for name in ("content", "text", "markdown", "thought"):
        if isinstance(data.get(name), str):
            return str(data[name])
    return json.dumps(data, ensure_ascii=False)


def usage_of(event: Mapping[str, Any]) -> str | None:
    """Return the words for an event that tells what an answer used; None when it is another."""
    data = event.get("data")
    if event.get("type") != "USAGE" or not isinstance(data, dict):
        return None
    model, counts = data.get("model"), (data.get("prompt_tokens"), data.get("completion_tokens"))
    if not isinstance(model, str) or not all(isinstance(count, int) for count in counts):
        return None
    return usage_words(model, data)


def usage_words(model: str, usage: Mapping[str, Any]) -> str:
    """Return the tokens and the dollars of an answer in one line."""
    about = "about " if usage.get("estimated") else ""
    words = f"{model}: {about}{usage['prompt_tokens']} + {usage['completion_tokens']} tokens"
    dollars = usage.get("cost_estimate")
    return f"{words}, ${dollars:.6f}" if isinstance(dollars, int | float) else words


class Sources:
    """The citations of an answer, each address once, in the order in which they came."""

    def __init__(self) -> None:
        self._items: dict[str, CitationItem] = {}

    def add(self, citations: Iterable[CitationItem]) -> None:
        """Take citations."""
        for item in citations:
            self._items.setdefault(item.uri, item)

    def numbered(self) -> list[tuple[int, CitationItem]]:
        """Return them with the numbers to show."""
        return list(enumerate(self._items.values(), 1))
