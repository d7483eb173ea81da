"""A turn of a saved conversation: a question with its answer. Pure.

A conversation is the turns with the same id, in the order in which they were saved. Its latest
model and system prompt continue to apply.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any

from .._text import encodable

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTurn:
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


def system_prompt(turns: Sequence[SavedTurn], given: str | None) -> str | None:
    """Return the system prompt of the next turn: the one given, otherwise the latest one."""
    return turns[-1].system if turns and given is None else given


def context_messages(turns: Sequence[SavedTurn], system: str | None) -> list[dict[str, Any]]:
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


# The columns of the table: the fields of a turn, and the texts for the search.
COLUMNS = (*(one.name for one in fields(SavedTurn)), "question", "answer")


def turn_row(turn: SavedTurn) -> tuple[tuple[Any, ...], dict[str, bytes]]:
    """Return the values of `COLUMNS`, and the content of attachments by its SHA-256."""
    messages, blobs = pack(turn.messages)
    values = {name: getattr(turn, name) for name in COLUMNS}
    values |= {"messages": json.dumps(messages), "usage": json.dumps(dict(turn.usage))}
    values |= {"question": encodable(turn.question), "answer": encodable(turn.answer)}
    return tuple(values.values()), blobs


def turn_of(row: Sequence[Any], blobs: Mapping[str, bytes]) -> SavedTurn:
    """Return the turn of a row.

    Raises:
        ValueError, KeyError: the row is damaged.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    del values["question"], values["answer"]
    values["messages"] = unpack(json.loads(values["messages"]), blobs)
    values["usage"] = json.loads(values["usage"])
    values["complete"] = bool(values["complete"])
    return SavedTurn(**values)


# Attachments. Every long text that is base64, alone or in a `data:` URL, becomes a reference by the
# SHA-256 of its bytes. So a file that is attached to several messages is stored once.

MIN_LENGTH = 256
_DATA_URL = re.compile(r"data:[^,]{0,200};base64,")
_REFERENCE, _OBJECT = "$blob", "$object"


def pack(value: Any) -> tuple[Any, dict[str, bytes]]:
    """Return a JSON value with references, and the bytes that they refer to, by their SHA-256."""
    blobs: dict[str, bytes] = {}
    return _packed(value, blobs), blobs


def _packed(value: Any, blobs: dict[str, bytes]) -> Any:
    if isinstance(value, str):
        return _packed_text(value, blobs)
    if isinstance(value, list | tuple):
        return [_packed(item, blobs) for item in value]
    if not isinstance(value, Mapping):
        return value
    packed = {key: _packed(item, blobs) for key, item in value.items()}
    # An object that looks like one of ours is wrapped, so that it stays what it is.
    return {_OBJECT: packed} if _REFERENCE in packed or _OBJECT in packed else packed


def _packed_text(text: str, blobs: dict[str, bytes]) -> Any:
    if len(text) < MIN_LENGTH:
        return text
    start = match.end() if (match := _DATA_URL.match(text)) else 0
    content = _decoded(text[start:])
    if content is None:
        return text
    digest = sha256(content).hexdigest()
    blobs[digest] = content
    return {_REFERENCE: digest, "prefix": text[:start]}


def _decoded(text: str) -> bytes | None:
    """Return the bytes if encoding them gives exactly this text."""
    try:
        content = b64decode(text, validate=True)
    except ValueError:
        return None
    return content if b64encode(content).decode() == text else None


def unpack(value: Any, blobs: Mapping[str, bytes]) -> Any:
    """Return the value that `pack` was given.

    Raises:
        KeyError: the bytes of a reference are missing.
    """
    if isinstance(value, list):
        return [unpack(item, blobs) for item in value]
    if not isinstance(value, dict):
        return value
    if _REFERENCE in value:
        return f"{value['prefix']}{b64encode(blobs[value[_REFERENCE]]).decode()}"
    items = value.get(_OBJECT, value)
    return {key: unpack(item, blobs) for key, item in items.items()}
