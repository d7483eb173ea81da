"""The streams of a chat, in order, and the questions with which they ended.

A stream is found by an id that the client has chosen, at any replica. Some protocols name the chat
and not the answer: "is an answer running in this chat?" So each request that opens a stream is
noted in the log, as a turn of a conversation of its own that has no messages, before the stream is
opened. A note says how the id of the request is made, not which stream it opened: if two processes
get the same request at the same time, one stream answers both.

A request may be sent again after its answer has failed. Then the same key gets the next number.

A question is answered once: the id of the request that answers it is made of the question, so the
log decides between two answers, whichever replicas get them. It can be answered again if the stream
with the answer has failed.
"""

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from ..answer import Question
from ..answer._fold import asked_question
from ..engine._conversation import COMPLETE, dump_mark, marks_in
from ..errors import PositionGone, UnknownStream
from ..log.base import Conversation, StreamLog, StreamMeta
from ._answers import load_entries
from ._problems import Problem, question_not_open

_NAMESPACE: Final = uuid5(NAMESPACE_URL, "urn:coreason:chat-request")
_MAX_NOTES: Final = 100
_NOTE: Final = "chat"
_ID = re.compile(r"([a-z]+)_([0-9a-f]{32})", re.ASCII)


class Note(NamedTuple):
    """A request of a chat.

    Attributes:
        key: what makes it the same request when it comes again.
        number: how many requests with this key were answered before.
        message_id: the id of the message to which its answer belongs, if its protocol needs that.
    """

    key: str
    number: int = 0
    message_id: str = ""

    @property
    def request_id(self) -> UUID:
        """The id of the request."""
        return request_id(self.key, self.number)


class Chat:
    """One chat of a principal; `protocol` keeps the chats of several protocols apart."""

    def __init__(self, log: StreamLog, principal: str, protocol: str, chat_id: str) -> None:
        self._log = log
        self._principal = principal
        self._notes = Conversation(principal, session_of(f"{protocol}-notes", chat_id))

    async def notes(self) -> list[Note]:
        """Return the latest notes, the newest first.

        Raises:
            LogError: the log does not answer.
        """
        stored = await self._log.turns(self._notes, _MAX_NOTES)
        return [Note(**marks_in(one)[_NOTE]) for one in reversed(stored)]

    async def add(self, note: Note, stream_id: UUID) -> None:
        """Note a request before its stream is opened; `stream_id` is that of the new stream.

        Raises:
            LogError: the log does not answer.
        """
        await self._log.add_turn(self._notes, stream_id, dump_mark(_NOTE, note._asdict()))

    async def find(self, note: Note) -> StreamMeta | None:
        """Return the newest stream of the key of a note, None if there is none.

        Raises:
            LogError: the log does not answer.
        """
        newest = None
        while (found := await self._log.find(self._principal, note.request_id)) is not None:
            newest, note = found, note._replace(number=note.number + 1)
        return newest

    async def newest(self, notes: Sequence[Note]) -> StreamMeta | None:
        """Return the newest stream of the chat, None if there is none.

        A note may have no stream: the request was refused after it was noted.

        Raises:
            LogError: the log does not answer.
        """
        for note in notes:
            if (found := await self.find(note)) is not None:
                return found
        return None


def request_id(key: str, number: int = 0) -> UUID:
    """Return the id of the request with a key."""
    return uuid5(_NAMESPACE, f"{key}:{number}")


def session_of(protocol: str, chat_id: str) -> str:
    """Return the name of a conversation in the store, without the id that the client has chosen."""
    return f"{protocol}:{sha256(chat_id.encode()).hexdigest()}"


def stream_in(kind: str, given: Any) -> UUID | None:
    """Return the stream that an id of a kind names, such as run_…; None if it has another form."""
    found = _ID.fullmatch(given) if isinstance(given, str) else None
    return UUID(found[2]) if found is not None and found[1] == kind else None


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
