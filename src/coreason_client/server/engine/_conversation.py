"""Turns of a conversation: question, answer and outcome. No I/O.

A log keeps two kinds of opaque bytes for this module:

* A turn, as a JSON list of messages. The last message of a turn that did not complete is the
  assistant's, with an extra key `outcome`. A release that does not know the key ignores it. If a
  request has brought the turns before it, all of them are stored as one: a JSON list of such lists.
  If a turn ended with a question to the user, its last message has the extra key `asked`, the id of
  the stream. The question itself is a turn of its own conversation, see `asked_in`, which the agent
  can continue with. The turns after it there are claims, one for each stream that may answer it.
* A question, as a JSON object with the conversation and the new messages of a request. It is kept
  while the stream runs, so another process can store the turn if the producer is lost. That of a
  durable stream has the whole request and the headers of its trace, so another process can also
  continue the stream; and that of an agent that waits for its turn, so another one can start it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID, uuid5

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from coreason_manifest.definitions.message import ChatMessage, Role
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.service import ServiceRequest

from .._off_loop import LARGE_BODY
from ..log.base import Conversation

COMPLETE = "complete"
MAX_HISTORY_BYTES = 1024 * 1024
"""Default limit of the stored history that an agent gets."""

MAX_STATE_BYTES = 2 * 1024 * 1024
"""Limit of the state of a question: a log keeps 4 MiB of it and the claims to answer it."""

_MESSAGES = TypeAdapter(list[ChatMessage])
_OUTCOME_KEY = "outcome"
_ASKED_KEY = "asked"
_ANSWER_KEY = "answer"  # in the metadata of a request
_CLAIM_KEY = "claim"
_WAITS_KEY = "waits"
_YES: Final = frozenset({"approve", "approved", "ok", "okay", "y", "yes"})
_NO: Final = frozenset({"denied", "deny", "n", "no", "reject", "rejected"})
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
        thread: the name of the conversation that the request is a part of; empty if its client did
            not name one.
    """

    earlier: list[StoredTurn]
    keeps_turn: bool = False
    has_instructions: bool = False
    thread: str = ""


class UnreadTurn(ServiceRequest):
    """The request for the messages that an agent did not read before its end.

    Attributes:
        unread_of: the stream of that agent. Its last packet names the messages, so they are added
            when it has ended.
    """

    unread_of: UUID


def unread_turn(request: ServiceRequest, stream_id: UUID) -> UnreadTurn:
    """Return the request for the messages that the agent of a request did not read."""
    asked, name = request.payload, uuid5(stream_id, "unread")
    payload = AgentRequest(
        request_id=name,
        session_id=asked.session_id,
        root_request_id=asked.root_request_id,
        parent_request_id=asked.request_id,
        messages=[],
        capabilities=asked.capabilities,
        # They do not answer a question that this request has answered.
        metadata={key: value for key, value in asked.metadata.items() if key != _ANSWER_KEY},
    )
    context = request.context
    return UnreadTurn(request_id=name, context=context, payload=payload, unread_of=stream_id)


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


def thread_of(request: ServiceRequest) -> str:
    """Return the name of the conversation whose messages are answered in order."""
    if isinstance(request, RequestWithHistory) and request.thread:
        return request.thread
    return request.context.session_id


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


def dump_turn(
    turn: Turn, earlier: Sequence[StoredTurn] = (), *, asked_by: UUID | None = None
) -> bytes:
    """Return a turn as it is stored in a log, together with those before it if they are given.

    `asked_by` is the stream of the turn if it ended with a question to the user.
    """
    messages = _dump_messages(turn.messages)
    if turn.error is not None:
        if not messages or messages[-1]["role"] != Role.ASSISTANT:
            messages.append({"role": "assistant", "parts": []})
        messages[-1][_OUTCOME_KEY] = turn.error
    if asked_by is not None:
        messages[-1][_ASKED_KEY] = asked_by.hex
    return to_json([*earlier, messages] if earlier else messages)


def _dump_messages(messages: Sequence[ChatMessage]) -> StoredTurn:
    dumped: StoredTurn = _MESSAGES.dump_python(list(messages), mode="json", exclude_none=True)
    return dumped


def stored_turns(stored: bytes) -> list[StoredTurn]:
    """Return the turns in a result of `dump_turn` of this release or an earlier one."""
    values = from_json(stored)
    return values if values and isinstance(values[0], list) else [values]


def dump_mark(name: str, value: Any, **others: Any) -> bytes:
    """Return a turn without messages, for a list of something else that a log keeps in order."""
    return to_json([{"role": "assistant", "parts": [], name: value, **others}])


def marks_in(stored: bytes) -> dict[str, Any]:
    """Return what a result of `dump_mark` says, by its name."""
    return stored_turns(stored)[-1][-1]


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


def dump_request(
    principal: str, request: ServiceRequest, trace: Mapping[str, str], *, waits: bool = False
) -> bytes:
    """Return the question of a durable stream, or of one whose agent waits for its turn.

    It is the validated request and not its body: parsing the body again would make new ids and
    timestamps.
    """
    stored = {"principal": principal, "trace": trace, "request": request}
    return to_json({**stored, _WAITS_KEY: True} if waits else stored)


def waiting_request(stored: bytes) -> tuple[ServiceRequest, dict[str, str]] | None:
    """Parse the question of a stream whose agent was not started; None for others, and damaged."""
    try:
        return parse_request(stored) if _WAITS_KEY in from_json(stored) else None
    except (TypeError, ValueError):
        return None


def parse_request(stored: bytes) -> tuple[ServiceRequest, dict[str, str]]:
    """Parse the result of `dump_request`: the request, and the headers of its trace.

    Raises:
        ValueError: the bytes are something else.
    """
    try:
        question = from_json(stored)
        return parse_stored(question["request"]), dict(question["trace"])
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"not a stored request: {type(error).__name__}") from None


def parse_stored(request: dict[str, Any]) -> ServiceRequest:
    """Parse a request that was written as JSON."""
    if "unread_of" in request:
        return UnreadTurn.model_validate(request)
    kind = RequestWithHistory if "earlier" in request else ServiceRequest
    return kind.model_validate(request)


# Questions to the user.


class StoredQuestion(NamedTuple):
    """A question with which a stream ended, and what its agent needs to go on: any JSON."""

    question: str
    call_id: str | None = None
    state: Any = None


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """The question with which the turn before ended, and the answer of the user.

    Attributes:
        question: the text of the question.
        call_id: the tool call that waits for a permission, None if it asks for something else.
        state: what the agent gave to `ask`, None if it gave nothing.
        text: the answer as text.
        approved: True if the user said yes. Only a clear yes counts: everything else is a no.
        reason: why not, or what the user said instead; empty if nothing was said.
        arguments: those that the user wants instead of the ones that were shown, None if they stay.
    """

    question: str
    call_id: str | None
    state: Any
    text: str
    approved: bool
    reason: str = ""
    arguments: Any = None


def asked_in(principal: str, stream_id: UUID) -> Conversation:
    """Return the conversation that has the question of a stream, and the claims to answer it."""
    return Conversation(principal, f"question:{stream_id.hex}")


def dump_asked(asked: StoredQuestion) -> bytes:
    """Return a question as it is stored in a log."""
    return dump_mark(_ASKED_KEY, asked._asdict())


def dump_claim(stream_id: UUID, *, approves: bool = False) -> bytes:
    """Return the claim of a stream to answer a question."""
    return dump_mark(_CLAIM_KEY, {"stream": stream_id.hex, "approves": approves})


def parse_asked(stored: Sequence[bytes]) -> StoredQuestion | None:
    """Return the question among the turns of its conversation, None if it has expired."""
    found = (marks_in(turn).get(_ASKED_KEY) for turn in stored)
    return next((StoredQuestion(**asked) for asked in found if asked is not None), None)


def parse_claims(stored: Sequence[bytes]) -> list[tuple[UUID, bool]]:
    """Return the streams that may answer a question, the first first, and whether each approves."""
    claims = (marks_in(turn).get(_CLAIM_KEY) for turn in stored)
    return [(UUID(claim["stream"]), claim["approves"]) for claim in claims if claim is not None]


def names_question(request: ServiceRequest) -> bool:
    """Return True if the metadata of a request names the question that it answers."""
    return _given_answer(request).get("question_id") is not None


def named_asker(request: ServiceRequest) -> UUID | None:
    """Return the stream whose question a request names, for A2A perhaps by a message id."""
    try:
        named = str(_given_answer(request).get("question_id"))
        return UUID(named.removeprefix("question_").split(":")[0])
    except ValueError:
        return None


def last_end(latest: Sequence[bytes]) -> dict[str, Any] | None:
    """Return the last message of the last turn that did not fail, None if all have failed."""
    turns = [turn for stored in latest for turn in stored_turns(stored) if turn]
    return next((turn[-1] for turn in reversed(turns) if _OUTCOME_KEY not in turn[-1]), None)


def last_asker(latest: Sequence[bytes]) -> UUID | None:
    """Return the stream of that turn if it ended with a question."""
    asked = (last_end(latest) or {}).get(_ASKED_KEY)
    return None if asked is None else UUID(asked)


def answer_to(asked: StoredQuestion, request: ServiceRequest) -> AnsweredQuestion:
    """Return the answer that a request gives to a question."""
    text, given = last_question(request), _given_answer(request)
    if isinstance(given.get("approved"), bool):
        approved, reason = given["approved"], given.get("reason") or ""
    else:
        word, _, rest = text.strip().partition(":" if ":" in text else ",")
        word = word.strip().rstrip(".!").lower()
        approved = word in _YES and not rest
        reason = "" if approved else rest.strip() if word in _NO else text.strip()
    arguments = given.get("arguments") if approved else None
    return AnsweredQuestion(*asked, text, approved, str(reason), arguments)


def _given_answer(request: ServiceRequest) -> dict[str, Any]:
    """Return the answer in the metadata of a request, from a client of any protocol."""
    metadata = request.payload.metadata
    given = metadata.get(_ANSWER_KEY)
    if isinstance(page := metadata.get("ai_sdk"), dict):
        given = page.get("approval")
    if isinstance(run := metadata.get("ag_ui"), dict) and isinstance(run.get("resume"), list):
        given = _given_to_run(next(iter(run["resume"]), None))
    return given if isinstance(given, dict) else {}


def _given_to_run(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        return {}
    payload = entry.get("payload")
    given: dict[str, Any] = {**payload} if isinstance(payload, dict) else {}
    if entry.get("status") == "cancelled":
        given["approved"] = False
    elif payload is None or isinstance(payload, bool):  # otherwise its text may be a yes
        given["approved"] = payload is not False
    return {**given, "question_id": entry.get("interruptId")}


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


def dump_question(principal: str, request: ServiceRequest, heard: Iterable[str] = ()) -> bytes:
    """Return the bytes from which another process can store the turn of a stream.

    `heard` are messages that its agent got while it worked.
    """
    if not keeps_turn(request):
        return b""
    question: dict[str, Any] = {
        "principal": principal,
        "session_id": request.context.session_id,
        "messages": [*new_messages(request), *map(ChatMessage.user, heard)],
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
            return question_of(question["principal"], parse_stored(question["request"]))
        conversation = Conversation(question["principal"], question["session_id"])
        messages = _MESSAGES.validate_python(question["messages"])
        return Question(conversation, messages, question.get("earlier", ()))
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"not a stored question: {type(error).__name__}") from None
