"""The input of a run, and the requests that start, join or resume one.

The input is the `RunAgentInput` of AG-UI 1.0; it becomes messages of a request, and may have the
answers to questions of earlier runs.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from starlette.requests import Request

from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    FilePart,
    MessagePart,
    ReasoningPart,
    Role,
    TextPart,
)
from coreason_manifest.definitions.service import ServiceRequest

from .._options import Options
from ..answer import Question
from ..answer._writer import as_text
from ..engine._runtime import Runtime
from ..http._admission import ParsedBody, StreamRequest
from ..http._answers import CONFLICT
from ..http._body import fingerprint
from ..http._chat_body import (
    MAX_ID,
    Ask,
    bad_request,
    by_role,
    call_part,
    check_sizes,
    content_parts,
    is_id,
    json_object,
    objects_in,
    request_of,
    resource_part,
    result_part,
    text_in,
)
from ..http._chats import Chat, Note, asking_stream, joined_stream, open_question, session_of
from ..http._cursor import Cursor, parse_cursor
from ..http._decision import RequestFacts
from ..http._problems import Problem, question_not_open
from ..log.base import StreamLog, StreamMeta
from . import PROTOCOL

_JSON = dict[str, Any]
_MEDIA: Final = ("image", "audio", "video", "document")
_IDS: Final = ("threadId", "runId", "parentRunId")
_PASSED: Final = (*_IDS, "tools", "context", "state", "forwardedProps")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """The input of a run.

    Attributes:
        thread_id: the id of the conversation.
        run_id: the id of the run.
        given: the messages as they were received, for a snapshot of the conversation.
        messages: the same messages for the agent.
        resume: the answers to questions of an earlier run.
        passed: what the agent gets in its metadata.
        started: the members of the event RUN_STARTED.
    """

    thread_id: str
    run_id: str
    given: list[_JSON]
    messages: list[ChatMessage]
    resume: list[_JSON]
    passed: _JSON
    started: _JSON

    @property
    def tools(self) -> set[str]:
        """The names of the tools of the page, which the agent may call and the page executes."""
        return {tool["name"] for tool in self.passed.get("tools", ())}

    @property
    def call_ids(self) -> set[str]:
        """The ids of the tool calls in the messages."""
        answers = [message for message in self.given if message["role"] == "assistant"]
        return {call["id"] for answer in answers for call in answer.get("toolCalls", ())}


def run_input(values: _JSON) -> RunInput:
    """Return the input in a body.

    Raises:
        Problem: 400, naming the field.
    """
    for name in ("threadId", "runId"):
        _check_id(values, name)
    if values.get("parentRunId") is not None:
        _check_id(values, "parentRunId")
    if not isinstance(values.get("protocolVersion"), str | None):
        raise bad_request("protocolVersion", "protocolVersion must be text.")
    if values.get("messages") is None:
        raise bad_request("messages", "messages must be a list of messages.")
    given = objects_in(values["messages"], "messages")
    for index, tool in enumerate(_objects(values, "tools")):
        text_in(tool, "name", f"tools.{index}", "tools")
    _objects(values, "context")
    read = [_message(one, f"messages.{index}") for index, one in enumerate(given)]
    passed = {name: values[name] for name in _PASSED if values.get(name) is not None}
    started: _JSON = {name: passed[name] for name in _IDS if name in passed}
    if values.get("protocolVersion") is not None:  # each side declares its own version
        started["protocolVersion"] = "1.0"
    return RunInput(
        thread_id=values["threadId"],
        run_id=values["runId"],
        # Clients refuse a null in a snapshot, and some send one.
        given=[{name: one[name] for name in one if one[name] is not None} for one in given],
        messages=[message for message in read if message is not None],
        resume=_resume(values),
        passed=passed,
        started=started,
    )


def _check_id(values: _JSON, name: str) -> None:
    if not is_id(values.get(name)):
        raise bad_request(name, f"{name} must be an id of 1 to {MAX_ID} printable characters.")


def _objects(values: _JSON, name: str, where: str = "") -> list[_JSON]:
    """Return a list that may be missing."""
    return [] if values.get(name) is None else objects_in(values[name], f"{where}{name}")


def _resume(values: _JSON) -> list[_JSON]:
    resume = _objects(values, "resume")
    for index, entry in enumerate(resume):
        text_in(entry, "interruptId", f"resume.{index}", "resume")
        if entry.get("status") not in ("resolved", "cancelled"):
            raise bad_request("resume", f"resume.{index}.status must be resolved or cancelled.")
    return resume


# Messages.


def _message(message: _JSON, where: str) -> ChatMessage | None:
    text_in(message, "id", where)
    return by_role(message, where, _ROLES)(message, where)


def _named(message: _JSON, role: Role, parts: list[MessagePart]) -> ChatMessage:
    name = message.get("name")
    return ChatMessage(role=role, parts=parts, name=name if isinstance(name, str) else None)


def _user(message: _JSON, where: str) -> ChatMessage:
    return _named(message, Role.USER, _content(message, where))


def _system(message: _JSON, where: str) -> ChatMessage:
    return _named(message, Role.SYSTEM, [TextPart(content=text_in(message, "content", where))])


def _assistant(message: _JSON, where: str) -> ChatMessage:
    parts = [] if message.get("content") is None else _content(message, where)
    for index, call in enumerate(_objects(message, "toolCalls", f"{where}.")):
        at, function = f"{where}.toolCalls.{index}", call.get("function")
        if not isinstance(function, dict) or not isinstance(call.get("id"), str):
            raise bad_request(at, f"{at} must have an id and a function.")
        parts.append(call_part(function.get("name"), call["id"], function.get("arguments"), at))
    return _named(message, Role.ASSISTANT, parts)


def _tool(message: _JSON, where: str) -> ChatMessage:
    _content(message, where)
    call_id, content = text_in(message, "toolCallId", where), message["content"]
    if message.get("error") is not None:
        content = {"content": content, "error": text_in(message, "error", where)}
    return ChatMessage(role=Role.TOOL, parts=[result_part(call_id, content, where)])


def _reasoning(message: _JSON, where: str) -> ChatMessage:
    thought = ReasoningPart(content=text_in(message, "content", where))
    return ChatMessage(role=Role.ASSISTANT, parts=[thought])


def _activity(message: _JSON, where: str) -> None:
    """Leave a message out: it is for people, and no agent gets it."""


_ROLES: Final[Mapping[str, Callable[[_JSON, str], ChatMessage | None]]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "developer": _system,
    "tool": _tool,
    "reasoning": _reasoning,
    "activity": _activity,
}


def _content(message: _JSON, where: str) -> list[MessagePart]:
    return content_parts(message.get("content"), f"{where}.content", _part)


def _part(part: Any, where: str) -> MessagePart:
    kind = part.get("type") if isinstance(part, dict) else None
    found: MessagePart | None = None
    if kind == "text" and isinstance(part.get("text"), str):
        found = TextPart(content=part["text"])
    elif kind in _MEDIA and isinstance(source := part.get("source"), dict):
        found = _resource(source.get("type"), source.get("value"), source.get("mimeType"), kind)
    elif kind == "binary":
        found = _binary(part)
    if found is None:
        kinds = ", ".join(_MEDIA)
        raise bad_request(where, f"{where} must be a part of type text, {kinds} with its content.")
    return found


def _binary(part: _JSON) -> MessagePart | None:
    """Return a part of the versions before 1.0."""
    media_type = part.get("mimeType")
    main = media_type.partition("/")[0] if isinstance(media_type, str) else ""
    for name, source in (("data", "data"), ("url", "url"), ("id", "file")):
        if part.get(name) is not None:
            modality = main if main in _MEDIA else "document"
            return _resource(source, part[name], media_type, modality)
    return None


def _resource(kind: Any, value: Any, media_type: Any, modality: str) -> MessagePart | None:
    if not isinstance(value, str) or not isinstance(media_type, str | None):
        return None
    if kind == "data" and media_type is not None:
        return BlobPart(content=value, mime_type=media_type, modality=modality)
    if kind == "file":
        return FilePart(file_id=value, mime_type=media_type, modality=modality)
    return resource_part(value, modality, media_type) if kind == "url" else None


_EVENT_ID = re.compile(r"([^.]+)(\.s)?\.(0|[1-9][0-9]{0,8})", re.ASCII)


class EventId(NamedTuple):
    """The position after an event: its packet, and its number there or among those of a join."""

    cursor: Cursor
    number: int
    is_join: bool


class RunRequest(StreamRequest):
    """A `POST` of a run; `position` is set with the head, and `run` with the body."""

    position: EventId | None
    run: RunInput

    def __init__(self, request: Request, options: Options) -> None:
        super().__init__(request)
        self._options = options

    def facts(self, principal: str) -> RequestFacts:
        """Return the position in `Last-Event-ID`; raises as in the base class."""
        self.position = _position(self.http)
        return RequestFacts(principal, cursor=self.position and self.position.cursor)

    def parse(self, body: bytes) -> ParsedBody:
        """Validate the body.

        Raises:
            Problem: 400, naming the field.
        """
        self.run = run = run_input(json_object(body))
        check_sizes(run.messages, self._options)
        request = self._request(_run_note(run.run_id), run.messages, run.passed)
        return ParsedBody(request, f"{PROTOCOL}:{fingerprint(body)}")

    async def complete(self, parsed: ParsedBody, runtime: Runtime, principal: str) -> ParsedBody:
        """Find the question that a run answers, and note the run in its thread.

        Raises:
            Problem: 409 or 410, the question cannot be answered.
        """
        run, log, found = self.run, runtime.log, None
        note, asked = _run_note(run.run_id), _asked(run)
        if asked is not None:
            note = Note(f"{PROTOCOL}:answer:{asked.hex}")
            note, found = await joined_stream(log, principal, note, parsed.fingerprint)
            parsed = parsed._replace(request=self._request(note, run.messages, run.passed))
        elif not self.position:
            found = await log.find(principal, note.request_id)
        if self.position or found is not None:
            return parsed  # it joins the stream, which has all that follows
        thread = Chat(log, principal, PROTOCOL, run.thread_id)
        if asked is not None:
            question = await open_question(log, thread, note, asked)
            message, answer = _answer(run.resume[0], question)
            passed = {**run.passed, "resume": [answer]}
            parsed = parsed._replace(request=self._request(note, [*run.messages, message], passed))
            await _notes_of_run(log, principal, run.run_id).add(note, self.stream_id)
        await thread.add(note, self.stream_id)
        return parsed

    def conflict(self) -> Problem:
        """Return the refusal of this run, because another request had its id or its question."""
        if self.run.resume:
            return question_not_open()
        detail = "The runId was used before with another input: use a new runId for a new run."
        return Problem(409, CONFLICT, detail)

    def _request(
        self, note: Note, messages: list[ChatMessage], passed: dict[str, Any]
    ) -> ServiceRequest:
        ask = Ask(
            messages=messages,
            session_id=f"{PROTOCOL}:{self.stream_id.hex}",
            metadata={"ag_ui": passed},
            thread=session_of(PROTOCOL, self.run.thread_id),
            can_rewind=True,
        )
        return request_of(ask, note.request_id)


def _position(request: Request) -> EventId | None:
    values = request.headers.getlist("last-event-id")
    if not values:
        return None
    match = _EVENT_ID.fullmatch(values[0]) if len(values) == 1 else None
    try:
        if match is not None:
            return EventId(parse_cursor(match[1]), int(match[3]), match[2] is not None)
    except ValueError:
        pass
    detail = "Last-Event-ID must be the id of an event of this run."
    raise Problem(400, "bad-last-event-id", detail)


# Runs.


def _run_note(run_id: str) -> Note:
    return Note(f"{PROTOCOL}:run:{run_id}")


def _notes_of_run(log: StreamLog, principal: str, run_id: str) -> Chat:
    """Return the notes of a run that answers a question; the id of its request is not its own."""
    return Chat(log, principal, f"{PROTOCOL}-run", run_id)


async def find_run(log: StreamLog, principal: str, run_id: str) -> StreamMeta | None:
    """Return the stream of a run, None if there is none.

    Raises:
        LogError: the log does not answer.
    """
    for note in (_run_note(run_id), *await _notes_of_run(log, principal, run_id).notes()):
        if (found := await log.find(principal, note.request_id)) is not None:
            return found
    return None


def _asked(run: RunInput) -> UUID | None:
    """Return the stream whose question a run answers, None if it answers none.

    Raises:
        Problem: 409, it answers more than one; a run asks one question.
    """
    if len(run.resume) > 1:
        raise question_not_open()
    return asking_stream(run.resume[0]["interruptId"]) if run.resume else None


def _answer(entry: dict[str, Any], question: Question) -> tuple[ChatMessage, dict[str, Any]]:
    """Return the answer to a question as a message, and for the metadata."""
    payload = entry.get("payload")
    text = "denied" if entry["status"] == "cancelled" else "approved"
    if payload is not None and text == "approved":
        text = as_text(payload)
    names = ("interruptId", "status", "payload")
    answer = {name: entry[name] for name in names if entry.get(name) is not None}
    if (call := question.call) is not None:
        answer |= call._asdict()
    return ChatMessage.user(text), answer
