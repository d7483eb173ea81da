"""Reads one stream of a provider: it hands out deltas and keeps what they add up to."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from ._json import without_halves
from ._terms import Answer, End, RawCall, Tokens, new_call_id
from .types import Media, ReasoningDelta, TextDelta, ToolCallDelta

__all__ = ["Piece", "Reader"]

Piece: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta
"""What a stream brings before its end."""


class _OpenCall:
    """A tool call that is still growing."""

    __slots__ = ("arguments", "id", "made_up", "name", "signature")

    def __init__(self) -> None:
        self.id = ""
        self.made_up = False
        self.name = ""
        self.arguments: list[str] = []
        self.signature: str | None = None


class Reader(ABC):
    """Reads the events of one stream. A wire format says in `read` what each event means.

    Attributes:
        end: how the answer ended, None while that has not been said.
        over: whether the stream has said that nothing will follow.
        started: whether a delta has been handed out.
        tokens: what was counted so far.
        media: the images and sounds that have come.
    """

    __slots__ = (
        "_calls",
        "_half",
        "_reasoning",
        "_text",
        "_unnamed",
        "end",
        "media",
        "over",
        "started",
        "tokens",
    )

    def __init__(self) -> None:
        self.end: End | None = None
        self.over = False
        self.started = False  # not computed, since it is looked at after every chunk
        self.tokens: Tokens | None = None
        self.media: list[Media] = []
        self._text: list[str] = []
        self._half = ""  # the first half of a surrogate pair, whose second has not come
        self._reasoning: list[str] = []
        self._calls: dict[int, _OpenCall] = {}
        self._unnamed: dict[int, _OpenCall] = {}  # no calls, unless a name follows

    @abstractmethod
    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        """Take the data of one event, with its name, or one line of NDJSON, with an empty name.

        Raises:
            Faulted: it is an error.
            Malformed: it is not of the wire format.
        """

    @property
    def has_answer(self) -> bool:
        """Whether any part of an answer has come, or the reason why there is none."""
        return self.started or bool(self.media) or self.end is not None

    def answer(self) -> Answer:
        """Return what has come so far."""
        return Answer(
            content="".join(self._text) if self._text else None,
            calls=[
                RawCall(call.id, call.name, "".join(call.arguments), call.signature)
                for _, call in sorted(self._calls.items())
            ],
            end=self.end or "stop",
            reasoning="".join(self._reasoning),
            tokens=self.tokens,
            media=list(self.media),
        )

    # What `read` of a wire format calls for what it found.

    def text(self, text: str) -> TextDelta:
        """Take a piece of text; half of a surrogate pair waits for the other half."""
        # Compared here and not in a function: every piece that is not ASCII comes this way.
        if self._half or (
            not text.isascii() and ("\ud7ff" < text[0] < "\ue000" or "\ud7ff" < text[-1] < "\ue000")
        ):
            text = self._with_whole_pairs(text)
        self.started = True
        self._text.append(text)
        return TextDelta(text)

    def rest(self) -> Sequence[Piece]:
        """Return what was held back, at the end of the answer."""
        if not self._half:
            return ()
        self._half = ""
        return (self.text("\ufffd"),)

    def _with_whole_pairs(self, text: str) -> str:
        joined, self._half = self._half + text, ""
        if "\ud800" <= joined[-1:] <= "\udbff":
            joined, self._half = joined[:-1], joined[-1]
        return without_halves(joined)

    def reasoning(self, text: str) -> ReasoningDelta:
        """Take a piece of reasoning."""
        text = without_halves(text)
        self.started = True
        self._reasoning.append(text)
        return ReasoningDelta(text)

    def call(
        self,
        index: int,
        *,
        id: str | None = None,  # noqa: A002 - the word of every wire format
        name: str | None = None,
        arguments: str = "",
        signature: str | None = None,
    ) -> Sequence[ToolCallDelta]:
        """Take a piece of the tool call with an index; id and name count when they first come.

        A call without a name is none: its pieces are held back until the name comes.
        """
        call = self._calls.get(index)
        if call is None:
            return self._opened(index, id, name, arguments, signature)
        if id and call.made_up:  # it came late
            call.id, call.made_up = id, False
        call.signature = call.signature or signature
        call.arguments.append(arguments)
        return (ToolCallDelta(index, id, name, arguments),)

    def _opened(
        self, index: int, id_: str | None, name: str | None, arguments: str, signature: str | None
    ) -> Sequence[ToolCallDelta]:
        call = self._unnamed.pop(index, None) or _OpenCall()
        call.id = call.id or id_ or ""
        call.signature = call.signature or signature
        call.arguments.append(arguments)
        if not name:
            self._unnamed[index] = call
            return ()
        call.made_up = not call.id
        call.id, call.name = call.id or new_call_id(), name
        self._calls[index] = call
        self.started = True
        return (ToolCallDelta(index, call.id, name, "".join(call.arguments)),)
