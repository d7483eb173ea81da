"""Turns of a conversation: question, answer and outcome. No I/O.

A log keeps two kinds of opaque bytes for this module:

* A turn, as a JSON list of messages. The last message of a turn that did not complete is the
  assistant's, with an extra key `outcome`. A release that does not know the key ignores it. If a
  request has brought the turns before it, all of them are stored as one: a JSON list of such lists.
* A question, as a JSON object with the conversation and the new messages of a request. It is kept
  while the stream runs, so another process can store the turn if the producer is lost. That of a
  durable stream has the whole request and the headers of its trace, so another process can also
  continue the stream.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from coreason_manifest.definitions.message import ChatMessage, Role
from coreason_manifest.definitions.service import ServiceRequest

from .._off_loop import LARGE_BODY
from ..log.base import Conversation

__all__ = [
    "COMPLETE",
    "MAX_HISTORY_BYTES",
    "History",
    "Question",
    "RequestWithHistory",
    "StoredTurn",
    "Turn",
    "as_turns",
    "conversation_of",
    "dump_question",
    "dump_request",
    "dump_turn",
    "given_turns",
    "is_large",
    "keeps_turn",
    "last_question",
    "latest_turns",
    "make_turn",
    "new_messages",
    "parse_history",
    "parse_question",
    "parse_request",
    "question_of",
    "stored_turns",
    "turn_of",
]

COMPLETE = "complete"
MAX_HISTORY_BYTES = 1024 * 1024
"""Default limit of the stored history that an agent gets."""

_MESSAGES = TypeAdapter(list[ChatMessage])
_OUTCOME_KEY = "outcome"
_PART_BYTES = 50  # approximate size of a part without its content


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and its answer, as far as it was written.

    `messages` are those that the request added and, if any text was written, the answer. `error`
    is the code of the error that ended the answer, None for a complete one.
    """

    messages: tuple[ChatMessage, ...]
    error: str | None = None

    @property
    def complete(self) -> bool:
        """True if the answer ended without an error."""
        return self.error is None

    @property
    def outcome(self) -> str:
        """`complete`, or the code of the error: `cancelled`, `agent_error`, `producer_lost`, …"""
        return COMPLETE if self.error is None else self.error


class History(list[ChatMessage]):
    """The messages of the earlier turns of a conversation, oldest first.

    `turns` has the same messages by turn, with the outcome of each turn.
    """

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self.turns = tuple(turns)
        super().__init__(message for turn in self.turns for message in turn.messages)


StoredTurn: TypeAlias = list[dict[str, Any]]
"""A turn as a log stores it: its messages, the last one perhaps with the key `outcome`."""


class RequestWithHistory(ServiceRequest):
    """A request that brings the earlier turns of its conversation; the store is not asked for them.

    Attributes:
        earlier: the earlier turns, oldest first.
        keeps_turn: True if a later request may continue after this one, so its turn is stored.
        has_instructions: True if the first message is a system prompt for this request alone.
    """

    earlier: list[StoredTurn]
    keeps_turn: bool = False
    has_instructions: bool = False


def keeps_turn(request: ServiceRequest) -> bool:
    """Return True if the turn of a request is stored at its end."""
    return not isinstance(request, RequestWithHistory) or request.keeps_turn


def given_turns(request: ServiceRequest, limit: int) -> list[bytes] | None:
    """Return the latest turns that a request brings, None if they are in the store."""
    if not isinstance(request, RequestWithHistory):
        return None
    return [to_json(turn) for turn in request.earlier[-limit:]] if limit > 0 else []


def as_turns(messages: Sequence[ChatMessage]) -> tuple[list[StoredTurn], list[ChatMessage]]:
    """Split a conversation into its turns, each of which ends with an answer, and the rest."""
    turns: list[StoredTurn] = []
    start = 0
    for index, message in enumerate(messages, 1):
        following = messages[index].role if index < len(messages) else None
        if message.role is Role.ASSISTANT and following not in (Role.ASSISTANT, Role.TOOL):
            turns.append(_dump_messages(messages[start:index]))
            start = index
    return turns, list(messages[start:])


def conversation_of(principal: str, request: ServiceRequest) -> Conversation:
    """Return the conversation that a request belongs to."""
    return Conversation(principal, request.context.session_id)


def new_messages(request: ServiceRequest) -> list[ChatMessage]:
    """Return the messages that a request adds to its conversation.

    A client may send the whole conversation with each request; the messages after the last answer
    are new.
    """
    messages = request.payload.messages or []
    if isinstance(request, RequestWithHistory):
        return messages[1:] if request.has_instructions else messages
    start = 0
    for index, message in enumerate(messages, 1):
        if message.role is Role.ASSISTANT:
            start = index
    return messages[start:]


def last_question(request: ServiceRequest) -> str:
    """Return the text of the last user message, an empty string if there is none."""
    messages = request.payload.messages or []
    return next((m.text for m in reversed(messages) if m.role is Role.USER), "")


def make_turn(asked: Sequence[ChatMessage], answer: str, error: str | None = None) -> Turn:
    """Return the turn of a question and its answer.

    An empty answer becomes a message only if it is complete: the agent chose to say nothing.
    """
    if error is not None and not answer:
        return Turn(tuple(asked), error)
    return Turn((*asked, ChatMessage.assistant(answer)), error)


def is_large(messages: Iterable[ChatMessage]) -> bool:
    """Return True if messages are too large to be written as JSON on the event loop."""
    size = 0
    for message in messages:
        for part in message.parts:
            size += _PART_BYTES + len(part.get("content") or "")
            if size > LARGE_BODY:
                return True
    return False


def dump_turn(turn: Turn, earlier: Sequence[StoredTurn] = ()) -> bytes:
    """Return a turn as it is stored in a log, together with those before it if they are given."""
    messages = _dump_messages(turn.messages)
    if turn.error is not None:
        if not messages or messages[-1]["role"] != Role.ASSISTANT:
            messages.append({"role": "assistant", "parts": []})
        messages[-1][_OUTCOME_KEY] = turn.error
    return to_json([*earlier, messages] if earlier else messages)


def _dump_messages(messages: Sequence[ChatMessage]) -> StoredTurn:
    dumped: StoredTurn = _MESSAGES.dump_python(list(messages), mode="json", exclude_none=True)
    return dumped


def stored_turns(stored: bytes) -> list[StoredTurn]:
    """Return the turns in a result of `dump_turn` of this release or an earlier one."""
    values = from_json(stored)
    return values if values and isinstance(values[0], list) else [values]


def turn_of(values: StoredTurn) -> Turn:
    """Parse one of the `stored_turns`."""
    messages = _MESSAGES.validate_python(values)
    error: str | None = values[-1].get(_OUTCOME_KEY) if values else None
    if error is not None and not messages[-1].parts:
        messages.pop()
    return Turn(tuple(messages), error)


def latest_turns(stored: Sequence[bytes], max_bytes: int) -> Sequence[bytes]:
    """Return the latest stored turns that fit into `max_bytes`, and always the last one.

    A conversation may have many large turns, and any small request causes them to be parsed.
    """
    first = len(stored)
    left = max_bytes
    while first and (left >= len(stored[first - 1]) or first == len(stored)):
        first -= 1
        left -= len(stored[first])
    return stored[first:]


def parse_history(stored: Iterable[bytes]) -> History:
    """Parse turns written by `dump_turn`, oldest first."""
    return History(turn_of(turn) for turns in stored for turn in stored_turns(turns))


def dump_request(principal: str, request: ServiceRequest, trace: Mapping[str, str]) -> bytes:
    """Return the question of a durable stream.

    It is the validated request and not its body: parsing the body again would make new ids and
    timestamps.
    """
    return to_json({"principal": principal, "trace": trace, "request": request})


def parse_request(stored: bytes) -> tuple[ServiceRequest, dict[str, str]]:
    """Parse the result of `dump_request`: the request, and the headers of its trace.

    Raises:
        ValueError: the bytes are something else.
    """
    try:
        question = from_json(stored)
        return _parse_stored(question["request"]), dict(question["trace"])
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"not a stored request: {type(error).__name__}") from None


def _parse_stored(request: dict[str, Any]) -> ServiceRequest:
    kind = RequestWithHistory if "earlier" in request else ServiceRequest
    return kind.model_validate(request)


class Question(NamedTuple):
    """What is needed to store the turn of a stream, and the turns that are stored with it.

    `conversation` is None if the turn is not stored.
    """

    conversation: Conversation | None
    messages: list[ChatMessage]
    earlier: Sequence[StoredTurn] = ()


def question_of(principal: str, request: ServiceRequest) -> Question:
    """Return what is needed to store the turn of a request."""
    conversation = conversation_of(principal, request) if keeps_turn(request) else None
    earlier = request.earlier if isinstance(request, RequestWithHistory) else ()
    return Question(conversation, new_messages(request), earlier)


def dump_question(principal: str, request: ServiceRequest) -> bytes:
    """Return the bytes from which another process can store the turn of a stream."""
    if not keeps_turn(request):
        return b""
    question: dict[str, Any] = {
        "principal": principal,
        "session_id": request.context.session_id,
        "messages": new_messages(request),
    }
    if isinstance(request, RequestWithHistory):
        question["earlier"] = request.earlier
    return to_json(question, exclude_none=True)


def parse_question(stored: bytes) -> Question:
    """Parse the result of `dump_question` or `dump_request`.

    Raises:
        ValueError: the bytes are something else.
    """
    try:
        question = json.loads(stored)
        if "request" in question:
            return question_of(question["principal"], _parse_stored(question["request"]))
        conversation = Conversation(question["principal"], question["session_id"])
        messages = _MESSAGES.validate_python(question["messages"])
        return Question(conversation, messages, question.get("earlier", ()))
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"not a stored question: {type(error).__name__}") from None
