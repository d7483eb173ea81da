"""Questions with which answers have ended, and the requests that answer them.

A question is named by the stream that has asked it. It is answered once, at any replica: the id of
the request with the answer is made of the question, so the log refuses a second one. It can be
answered again if the answer to the first request has failed.
"""

import re
from typing import Final
from uuid import UUID

from ..answer import Question, asked_question
from ..engine._conversation import COMPLETE
from ..errors import PositionGone, UnknownStream
from ..log.base import StreamLog
from ._answers import load_entries
from ._chats import Chat, Note
from ._problems import Problem

__all__ = ["answer_note", "open_question", "question_id", "question_not_open", "question_stream"]

_PREFIX: Final = "question_"
_QUESTION = re.compile(rf"{_PREFIX}([0-9a-f]{{32}})", re.ASCII)


def question_id(stream_id: UUID) -> str:
    """Return the id of the question at the end of a stream."""
    return f"{_PREFIX}{stream_id.hex}"


def question_stream(given: str) -> UUID:
    """Return the stream that has asked a question.

    Raises:
        Problem: 409, the id has another form.
    """
    match = _QUESTION.fullmatch(given)
    if match is None:
        raise question_not_open()
    return UUID(match[1])


def question_not_open() -> Problem:
    """Return the refusal of an answer to a question that is not open."""
    detail = (
        "The question is not open: it was asked elsewhere, was already answered, or the "
        "conversation went on without an answer."
    )
    return Problem(409, "question-not-open", detail)


async def answer_note(
    log: StreamLog, principal: str, protocol: str, asked: UUID, fingerprint: str
) -> Note:
    """Return the note of the request that answers a question, by the fingerprint of its body.

    Raises:
        LogError: the log does not answer.
        Problem: 409, another request has answered it.
    """
    note = Note(f"{protocol}:answer:{asked.hex}")
    while (found := await log.find(principal, note.request_id)) is not None:
        if found.fingerprint == fingerprint:
            break
        if found.outcome in (None, COMPLETE):
            raise question_not_open()
        note = note._replace(number=note.number + 1)
    return note


async def open_question(log: StreamLog, chat: Chat, note: Note, asked: UUID) -> Question:
    """Return a question from the log of the stream that has asked it.

    It is open if nothing has happened in the chat since, except earlier tries to answer it. `note`
    is that of the answer. A chat has only streams of its principal.

    Raises:
        LogError: the log does not answer.
        Problem: 409, the question is not open; 410, its stream has expired.
    """
    newest = await chat.newest([one for one in await chat.notes() if one.key != note.key])
    if newest is None or newest.stream_id != asked:
        raise question_not_open()
    try:
        entries = await load_entries(log, asked)
    except (PositionGone, UnknownStream):
        detail = "The question has expired: the server keeps it only for some time. Ask again."
        raise Problem(410, "question-expired", detail) from None
    if (question := asked_question(entries)) is None:
        raise question_not_open()
    return question
