"""What every way of showing an answer makes of its events."""

import json
from collections.abc import Iterable

from coreason_manifest.definitions.presentation import CitationItem

__all__ = ["Sources", "text_of"]


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
