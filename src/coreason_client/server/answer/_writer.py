"""The base of the writers of all protocols: entries in, bytes of server-sent events out. No I/O.

A writer is a function of the log alone, so a restarted server and another replica write the same
bytes. Pieces of text, which most entries are, are copied into a prepared frame without parsing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from pydantic_core import from_json, to_json

from . import AnswerEvent, Artifact, Markdown, Media, Part, Rewound, Text, ToolResult, as_markdown
from ._entries import as_packet, delta_json, single_delta, split_entries, valid_entries
from ._fold import AnswerFold

_PARAGRAPH: Final = "\n\n"
_MAX_JOINED: Final = 262_144  # bytes of pieces of text that become one
_TOKENS: Final = {
    "inputTokens": "prompt_tokens",
    "outputTokens": "completion_tokens",
    "reasoningTokens": "reasoning_tokens",
    "cachedInputTokens": "cached_tokens",
    "cacheWriteInputTokens": "cache_write_tokens",
    "totalTokens": "total_tokens",
}


class Writer(ABC):
    """Writes the events of one answer; call `feed` with all entries from the first one."""

    text_types: ClassVar[tuple[type, ...]] = (Markdown, Media, Artifact)
    """The content other than text that is written as a paragraph of text."""
    handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]]
    """The method that writes an event, for each type but pieces of text; others are left out."""

    def __init__(self) -> None:
        self.has_ended = False
        """True if the end mark was written."""
        self.fold = AnswerFold()
        self.seq = 0
        """The number of entries that were added."""
        self.loaded: Sequence[bytes] = ()
        """All entries up to the next REWIND events, for a writer that `takes_back`."""
        self._out: list[bytes] = []
        self._paragraph_at = 0  # the position at which a paragraph needs no empty line before it

    @property
    def takes_back(self) -> bool:
        """True if its protocol can take words back."""
        return False

    @property
    def number(self) -> int:
        """The number of the next event, if its protocol numbers them."""
        raise NotImplementedError

    @abstractmethod
    def start(self) -> bytes:
        """Return what comes before the first packet."""

    @abstractmethod
    def _piece(self, text: bytes) -> bytes:
        """Return a piece of text, as JSON, in a frame, while a part of text is open."""

    @property
    def _position(self) -> int:
        """A number that grows with every piece of text."""
        return self.number

    def _take_back(self, kept: Iterable[tuple[int, bytes]]) -> None:
        """Write the answer anew: only these entries, with their numbers, are valid."""
        raise NotImplementedError  # only called if it `takes_back`

    def feed_joined(self, body: bytes) -> bytes:
        """Return what entries that were joined add; most often they are one piece of text."""
        if self.fold.part is Part.TEXT and not self.has_ended:
            text = single_delta(body)
            if text is not None:
                self.seq += 1
                return self._piece(text)
        return self.feed(split_entries(body))

    def feed(self, entries: Iterable[bytes]) -> bytes:
        """Return what the next entries add."""
        for entry in entries:
            if self.has_ended:
                break
            self.seq += 1
            self._add_entry(entry)
        return self._take()

    def _add_entry(self, entry: bytes) -> None:
        fold, text = self.fold, delta_json(entry)
        if text is None:
            self._add_all(fold.add(as_packet(entry)))
        elif fold.part is Part.TEXT:
            self._out.append(self._piece(text))
        else:
            self._add_all(fold.add_text(text))

    def _add_joined(self, entries: Iterable[bytes]) -> None:
        """Add entries that were written before; pieces of text in a row become one, if it is short.

        An event must not become longer than clients accept.
        """
        texts: list[bytes] = []
        size = 0
        for entry in entries:
            text = delta_json(entry)
            if text is None or size + len(text) > _MAX_JOINED:
                self._add_texts(texts)
                size = 0
            if text is None:
                self._add_all(self.fold.add(as_packet(entry)))
            else:
                texts.append(text[1:-1])
                size += len(text)
        self._add_texts(texts)

    def _add_texts(self, texts: list[bytes]) -> None:
        if texts:
            self._add_all(self.fold.add_text(b'"%b"' % b"".join(texts)))
            texts.clear()

    def _take(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _add_all(self, events: Iterable[AnswerEvent]) -> None:
        for event in events:
            if isinstance(event, Text):
                self._add_piece(event.json)
            elif isinstance(event, self.text_types):
                assert isinstance(event, Markdown | Media | Artifact)  # noqa: S101 - the only ones
                self._add_paragraph(as_markdown(event))
            elif isinstance(event, Rewound) and self.takes_back:
                self._take_back(valid_entries(self.loaded[: self.seq]))
            elif (write := self.handlers.get(type(event))) is not None:
                write(self, event)

    def _add_paragraph(self, text: str) -> None:
        if not text:
            return
        self._add_all(self.fold.begin_text())
        is_first = self._position == self._paragraph_at
        self._add_piece(to_json(f"{'' if is_first else _PARAGRAPH}{text}{_PARAGRAPH}"))
        self._paragraph_at = self._position

    def _add_piece(self, text: bytes) -> None:
        self._out.append(self._piece(text))


def event_frame(value: Any) -> bytes:
    """Return a value as the data of a server-sent event."""
    return b"data: %b\n\n" % to_json(value)


def as_text(value: Any) -> str:
    """Return a value as text: itself, or its JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def result_text(result: ToolResult, most: int) -> str:
    """Return the result of a call as text that is not longer than allowed."""
    if not result.has_ended:
        return "The answer ended before the call did."
    return cut(as_text(result.value), most)


def page_usage(usage: Mapping[str, int], names: Iterable[str] = _TOKENS) -> dict[str, int]:
    """Return the numbers of tokens that are known, as the protocols of pages name them.

    They are in the order of `names`: every process must write the same bytes.
    """
    return {name: usage[_TOKENS[name]] for name in names if _TOKENS[name] in usage}


def arguments_json(given: Any) -> str:
    """Return the arguments of a call as JSON; an agent may have them as text of that form."""
    if given is None:
        return "{}"
    if isinstance(given, str):
        with suppress(ValueError):
            from_json(given)
            return given
    return to_json(given).decode()


def cut(text: str, most: int) -> str:
    """Return a text that is not longer than allowed; a mark says what was cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[cut after {most} of {len(text)} characters]"
