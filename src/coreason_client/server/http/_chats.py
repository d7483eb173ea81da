"""The streams of a chat, in order: found by an id that the client has chosen, at any replica.

Some protocols name the chat and not the answer: "is an answer running in this chat?" So each
request that opens a stream is noted in the log, as a turn of a conversation of its own that has no
messages, before the stream is opened. A note says how the id of the request is made, not which
stream it opened: if two processes get the same request at the same time, one stream answers both.

A request may be sent again after its answer has failed. Then the same key gets the next number.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from ..engine._conversation import dump_mark, marks_in
from ..log.base import Conversation, StreamLog, StreamMeta

__all__ = ["Chat", "Note", "request_id", "session_of", "stream_in"]

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
