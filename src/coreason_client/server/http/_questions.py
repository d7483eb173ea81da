"""Questions with which an answer ended, and the requests that answer them.

A question is answered once: the id of the request that answers it is made of the question, so the
log decides between two answers, whichever replicas get them. It can be answered again if the stream
with the answer has failed.
"""

from collections.abc import Callable
from uuid import UUID

from ..answer import Question
from ..answer._fold import asked_question
from ..engine._conversation import COMPLETE
from ..errors import PositionGone, UnknownStream
from ..log.base import StreamLog, StreamMeta
from ._answers import load_entries
from ._chats import Chat, Note, stream_in
from ._problems import Problem, question_not_open

__all__ = ["asking_stream", "joined_stream", "open_question", "question_id"]


def question_id(stream_id: UUID) -> str:
    """Return the id of the question with which a stream ends."""
    return f"question_{stream_id.hex}"


def asking_stream(given: str) -> UUID:
    """Return the stream that has asked a question.

    Raises:
        Problem: 409, there is no such question.
    """
    if (found := stream_in("question", given)) is None:
        raise question_not_open()
    return found


async def joined_stream(
    log: StreamLog,
    principal: str,
    note: Note,
    fingerprint: str,
    joins: Callable[[StreamMeta], bool] = lambda _: True,
) -> tuple[Note, StreamMeta | None]:
    """Return the note of a request whose key `note` has, and the stream that it joins.

    `joins` says whether the same request joins a stream.

    Raises:
        Problem: 409, the key is that of a question, which another request has answered.
        LogError: the log does not answer.
    """
    while (found := await log.find(principal, note.request_id)) is not None:
        is_same = found.fingerprint == fingerprint
        if is_same and joins(found):
            break
        if not is_same and found.outcome in (None, COMPLETE):
            raise question_not_open()
        note = note._replace(number=note.number + 1)
    return note, found


async def open_question(log: StreamLog, chat: Chat, note: Note, asked: UUID) -> Question:
    """Return a question from the log of the stream that has asked it.

    It is open if nothing has happened in the chat since, except earlier tries to answer it. `note`
    is that of the answer. A chat has only streams of its principal.

    Raises:
        Problem: 409, it is not the newest of its conversation, or 410, it has expired.
        LogError: the log does not answer.
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
