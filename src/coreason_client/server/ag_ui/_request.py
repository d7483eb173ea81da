"""Requests that start, join or resume a run, and the answers to questions of earlier runs."""

import re
from typing import Any, NamedTuple
from uuid import UUID

from starlette.requests import Request

from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.service import ServiceRequest

from .._options import Options
from ..answer import Question
from ..answer._writer import as_text
from ..engine._runtime import Runtime
from ..http._admission import ParsedBody, StreamRequest
from ..http._answers import CONFLICT
from ..http._body import fingerprint
from ..http._chat_body import Ask, check_sizes, json_object, request_of
from ..http._chats import Chat, Note, session_of
from ..http._cursor import Cursor, parse_cursor
from ..http._decision import RequestFacts
from ..http._problems import Problem, question_not_open
from ..http._questions import asking_stream, joined_stream, open_question
from ..log.base import StreamLog, StreamMeta
from . import PROTOCOL
from ._input import RunInput, run_input

__all__ = ["EventId", "RunRequest", "find_run"]

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
