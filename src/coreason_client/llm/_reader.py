"""What reads one stream of a provider: it hands out deltas and keeps what they add up to."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from ._terms import Answer, End, RawCall, Tokens, new_call_id
from .types import ReasoningDelta, TextDelta, ToolCallDelta

__all__ = ["Piece", "Reader"]

Piece: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta
"""What a stream brings before its end."""


class _OpenCall:
    """A tool call that is still growing."""

    __slots__ = ("arguments", "id", "made_up", "name", "signature")

    def __init__(self, id_: str, *, made_up: bool) -> None:
        self.id = id_
        self.made_up = made_up
        self.name = ""
        self.arguments: list[str] = []
        self.signature: str | None = None


class Reader(ABC):
    """Reads the events of one stream. A wire format says in `read` what each event means.

    Attributes:
        end: how the answer ended, None while that has not been said.
        over: whether the stream has said that nothing will follow.
        tokens: what was counted so far.
    """

    __slots__ = ("_calls", "_reasoning", "_text", "end", "over", "tokens")

    def __init__(self) -> None:
        self.end: End | None = None
        self.over = False
        self.tokens: Tokens | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _OpenCall] = {}

    @abstractmethod
    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        """Take the data of one event, with its name, or one line of NDJSON, with an empty name.

        Raises:
            Faulted: it is an error.
            Malformed: it is not of the wire format.
        """

    @property
    def started(self) -> bool:
        """Whether anything of the answer has come."""
        return bool(self._text or self._reasoning or self._calls)

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
        )

    # What `read` of a wire format calls for what it found.

    def text(self, text: str) -> TextDelta:
        """Take a piece of text."""
        self._text.append(text)
        return TextDelta(text)

    def reasoning(self, text: str) -> ReasoningDelta:
        """Take a piece of reasoning."""
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
    ) -> ToolCallDelta:
        """Take a piece of the tool call with an index; id and name count when they first come."""
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = _OpenCall(id or new_call_id(), made_up=not id)
            delta_id: str | None = call.id
        else:
            delta_id = id
            if id and call.made_up:  # it came late
                call.id, call.made_up = id, False
        call.name = call.name or name or ""
        call.signature = call.signature or signature
        call.arguments.append(arguments)
        return ToolCallDelta(index, delta_id, name, arguments)
