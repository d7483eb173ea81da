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
    is_single,
    split_entries,
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
        self._texts: list[bytes] = []  # the pieces of the text, or of its open part
        self._paragraph_at = -1  # their number after the last block of Markdown

    @abstractmethod
    def start(self) -> bytes:
        """Return what comes before the first packet."""

    @abstractmethod
    def _add(self, event: AnswerEvent) -> None:
        """Write an event of the answer."""

    @abstractmethod
    def _piece(self, text: bytes) -> bytes:
        """Return a piece of text, as JSON, in a frame, while a part of text is open."""

    def feed_joined(self, body: bytes) -> bytes:
        """Return what entries that were joined add; most often they are one piece of text."""
        if self.fold.part is Part.TEXT and not self.has_ended and is_single(body):
            text = delta_json(body)
            if text is not None:
                return self._piece(text)
        return self.feed(split_entries(body))

    def feed(self, entries: Iterable[bytes]) -> bytes:
        """Return what the next entries add."""
        fold, piece, out = self.fold, self._piece, self._out
        for entry in () if self.has_ended else entries:
            text = delta_json(entry)
            if text is None:
                self._add_all(fold.add(as_packet(entry)))
                if self.has_ended:
                    break
            elif fold.part is Part.TEXT:
                out.append(piece(text))
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
        is_new = len(self._texts) in (0, self._paragraph_at)
        self._add_piece(to_json(f"{'' if is_new else _PARAGRAPH}{text}{_PARAGRAPH}"))
        self._paragraph_at = len(self._texts)

    def _add_piece(self, text: bytes) -> None:
        self._out.append(self._piece(text))

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
