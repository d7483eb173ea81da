"""The base of the writers of both APIs: entries in, bytes of server-sent events out. No I/O.

A writer is a function of the log alone, so a restarted server and another replica write the same
bytes. Pieces of text, which most entries are, are copied into a prepared frame without parsing.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

from pydantic_core import from_json, to_json

from ..answer import (
    AnswerEvent,
    AnswerFold,
    Artifact,
    Markdown,
    Media,
    Part,
    as_markdown,
    as_packet,
    delta_json,
)

__all__ = ["REWOUND", "Writer", "annotation", "as_text", "cut", "length_of"]

REWOUND: Final = {
    "code": "rewound",
    "message": "The agent was restarted and takes back words that were sent, which this API cannot "
    "do: ask again without stream.",
}
"""The error for a reader of a stream with a REWIND that another request has allowed."""

_PARAGRAPH: Final = "\n\n"


class Writer(ABC):
    """Writes the events of one answer; call `feed` with all entries from the first one."""

    def __init__(self) -> None:
        self.has_ended = False
        """True if the end mark was written."""
        self.fold = AnswerFold()
        self._out: list[bytes] = []
        self._has_text = False
        self._paragraph_at = -1  # the size of the text after the last block of Markdown

    @abstractmethod
    def start(self) -> bytes:
        """Return what comes before the first packet."""

    @abstractmethod
    def _add(self, event: AnswerEvent) -> None:
        """Write an event of the answer."""

    @abstractmethod
    def _add_piece(self, text: bytes) -> None:
        """Write a piece of text, as JSON, while a part of text is open."""

    @property
    @abstractmethod
    def _size(self) -> int:
        """A number that grows with the text of the open part."""

    def feed(self, entries: Iterable[bytes]) -> bytes:
        """Return what the next entries add."""
        fold, add_piece = self.fold, self._add_piece
        for entry in () if self.has_ended else entries:
            text = delta_json(entry)
            if text is None:
                self._add_all(fold.add(as_packet(entry)))
                if self.has_ended:
                    break
            elif fold.part is Part.TEXT:
                add_piece(text)
            else:
                self._add_all(fold.add_text(text))
        return self._take()

    def _take(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _add_all(self, events: Iterable[AnswerEvent]) -> None:
        for event in events:
            if isinstance(event, Markdown | Media | Artifact):
                self._add_markdown(as_markdown(event))
            else:
                self._add(event)

    def _add_markdown(self, text: str) -> None:
        if not text:
            return
        self._add_all(self.fold.begin_text())
        is_new = not self._has_text or self._size == self._paragraph_at
        self._add_piece(to_json(f"{'' if is_new else _PARAGRAPH}{text}{_PARAGRAPH}"))
        self._paragraph_at = self._size


def length_of(text: bytes) -> int:
    """Return the number of characters of a text as JSON."""
    if text.isascii() and b"\\" not in text:
        return len(text) - 2
    return len(from_json(text))


def as_text(value: Any) -> str:
    """Return a value as text: itself, or its JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def cut(text: str, most: int) -> str:
    """Return a text that is not longer than allowed; a mark says what was cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[cut after {most} of {len(text)} characters]"


def annotation(source: dict[str, Any], position: int) -> dict[str, Any]:
    """Return a source as a citation at a position of the text."""
    return {
        "url": source["uri"],
        "title": source["title"],
        "start_index": position,
        "end_index": position,
    }
