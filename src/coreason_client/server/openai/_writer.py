"""What the writers of both APIs have in common: the pieces of the text, and citations. No I/O."""

from typing import Any, Final

from pydantic_core import from_json

from ..answer._writer import Writer

__all__ = ["REWOUND", "TextWriter", "annotation", "length_of"]

REWOUND: Final = {
    "code": "rewound",
    "message": "The agent was restarted and takes back words that were sent, which this API cannot "
    "do: ask again without stream.",
}
"""The error for a reader of a stream with a REWIND that another request has allowed."""


class TextWriter(Writer):
    """A writer that keeps the text, because its API returns the whole answer too."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: list[bytes] = []  # the pieces of the text, or of its open part

    @property
    def _position(self) -> int:
        return len(self._texts)

    def _length(self) -> int:
        """Return the number of characters of the pieces of text."""
        return sum(map(length_of, self._texts))

    def _text(self) -> str:
        return "".join(from_json(b"[%b]" % b",".join(self._texts)))


def length_of(text: bytes) -> int:
    """Return the number of characters of a text as JSON."""
    if text.isascii() and b"\\" not in text:
        return len(text) - 2
    return len(from_json(text))


def annotation(source: dict[str, Any], position: int) -> dict[str, Any]:
    """Return a source as a citation at a position of the text."""
    return {
        "url": source["uri"],
        "title": source["title"],
        "start_index": position,
        "end_index": position,
    }
