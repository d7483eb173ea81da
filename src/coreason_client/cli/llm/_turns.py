"""A turn of a saved conversation: a question with its answer. Pure.

A conversation is the turns with the same id, in the order in which they were saved. Its latest
model and system prompt continue to apply.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._text import encodable
from ._blobs import pack, unpack

__all__ = [
    "COLUMNS",
    "Summary",
    "Turn",
    "context_messages",
    "system_prompt",
    "text_of",
    "turn_of",
    "turn_row",
]

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A question with its answer, and the results of tools between them."""

    conversation: str
    time: str
    """In UTC, in the form of ISO 8601."""

    model: str
    provider: str | None = None
    base_url: str | None = None
    """The base URL that was set, without a query; None if the model determined it."""

    system: str | None = None
    """The system prompt."""

    messages: Messages
    """The message of the user, and the messages that followed it."""

    usage: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    complete: bool = True
    """False if only a part of the answer was received."""

    @property
    def question(self) -> str:
        """The text of the user."""
        return _joined(self.messages, "user")

    @property
    def answer(self) -> str:
        """The text of the model."""
        return _joined(self.messages, "assistant")


@dataclass(frozen=True, slots=True)
class Summary:
    """A conversation in a list: its latest time and model, and its first question."""

    conversation: str
    time: str
    model: str
    turns: int
    question: str


def system_prompt(turns: Sequence[Turn], given: str | None) -> str | None:
    """Return the system prompt of the next turn: the one given, otherwise the latest one."""
    return turns[-1].system if turns and given is None else given


def context_messages(turns: Sequence[Turn], system: str | None) -> list[dict[str, Any]]:
    """Return the messages that precede the next question; the system prompt is the first one."""
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, *(dict(message) for turn in turns for message in turn.messages)]


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is text, a list of parts, or None."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _joined(messages: Messages, role: str) -> str:
    texts = (text_of(one.get("content")) for one in messages if one.get("role") == role)
    return "\n\n".join(text for text in texts if text)


# The columns of the table, in the order of `turn_row`. `question` and `answer` are for the search.
COLUMNS = (
    "conversation",
    "time",
    "model",
    "provider",
    "base_url",
    "system",
    "messages",
    "usage",
    "seconds",
    "complete",
    "question",
    "answer",
)


def turn_row(turn: Turn) -> tuple[tuple[Any, ...], dict[str, bytes]]:
    """Return the values of `COLUMNS`, and the content of attachments by its SHA-256."""
    messages, blobs = pack(turn.messages)
    row = (
        turn.conversation,
        turn.time,
        turn.model,
        turn.provider,
        turn.base_url,
        turn.system,
        json.dumps(messages),
        json.dumps(dict(turn.usage)),
        turn.seconds,
        turn.complete,
        encodable(turn.question),
        encodable(turn.answer),
    )
    return row, blobs


def turn_of(row: Sequence[Any], blobs: Mapping[str, bytes]) -> Turn:
    """Return the turn of a row.

    Raises:
        ValueError, KeyError: the row is damaged.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    return Turn(
        conversation=values["conversation"],
        time=values["time"],
        model=values["model"],
        provider=values["provider"],
        base_url=values["base_url"],
        system=values["system"],
        messages=unpack(json.loads(values["messages"]), blobs),
        usage=json.loads(values["usage"]),
        seconds=values["seconds"],
        complete=bool(values["complete"]),
    )
