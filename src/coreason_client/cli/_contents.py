"""What every way of showing an answer makes of its events."""

import json
import re
from collections.abc import Iterable

from coreason_manifest.definitions.presentation import CitationItem

__all__ = ["Sources", "clean", "text_of"]

# An agent's words must not steer the terminal: no control characters but line ends and tabs, and
# none that turn the direction of the text around it.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """Return the text without what would steer a terminal."""
    return text if text.isprintable() else _STEERING.sub("", text)


def text_of(data: object) -> str:
    """Return the text of a thought or a block, under whatever name an agent has sent it."""
    if not isinstance(data, dict):
        return ""
    for name in ("content", "text", "markdown", "thought"):
        if isinstance(data.get(name), str):
            return str(data[name])
    return json.dumps(data, ensure_ascii=False)


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
