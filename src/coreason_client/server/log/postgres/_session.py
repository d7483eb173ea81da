"""The part of the log that belongs to one event loop, and streams as rows of the database."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from ...errors import Fenced, OutOfSequence, RequestConflict, UnknownStream
from .._rules import digest, text
from ..base import AgentVersion, Claim, Conversation, EpochStart, NewStream, Opened, StreamMeta
from ..remote._owned import StreamSession
from ._announcements import Announcements
from ._errors import DatabaseAddress
from ._schema import ensure_schema
from ._store import PostgresStore


class DatabaseSession(StreamSession):
    """One event loop's part of a log; call `start` before use and `close` at the end."""

    def __init__(self, store: PostgresStore, listen: DatabaseAddress | None, poll: float) -> None:
        super().__init__()
        self.store = store
        self.announcements: Announcements | None = None
        self._listen = listen
        self._poll = poll

    async def start(self) -> None:
        """Connect, create the schema if there is none, and listen."""
        address, schema = self.store.server.address, self.store.schema
        async with self._starting:
            await self.store.prepare(lambda connection: ensure_schema(connection, address, schema))
            if self.announcements is None:
                self.announcements = Announcements(
                    self.store, self.waiters, self._poll, self._listen
                )
            await self.store.limited(self.announcements.started())

    async def close(self) -> None:
        """Close all connections and end the waiting reads."""
        if self.announcements is not None:
            await self.announcements.close()
        await self.store.close()
        self.waiters.wake_all()

    def subscribe(self, stream_id: UUID) -> None:
        """Listen to a stream, unless this event loop writes it."""
        if self.announcements is not None and not self.owned.owns(stream_id):
            self.announcements.subscribe(stream_id)

    def announce(self, stream_id: UUID) -> None:
        """Tell all processes that a stream or a task has changed."""
        if self.announcements is not None:
            self.announcements.announce(stream_id)

    def handle_append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        row: Any,
        *,
        ended: bool = False,
    ) -> None:
        """Show accepted entries to readers, or raise the error of an append."""
        state = row["state"]
        if state == "ok":
            if entries:
                self.add_entries(stream_id, epoch, first_seq, entries)
                self.announce(stream_id)
        elif state == "held":  # a repeated append: the database already had the entries
            self.drop_entries(stream_id)
            self.announce(stream_id)  # the first one may not have been announced
        if ended or state not in ("ok", "held"):
            self.disown(stream_id)
        raise_state(state, stream_id, epoch, first_seq, row["last"])


def raise_state(
    state: str, stream_id: UUID, epoch: int, first_seq: int = 0, last: int | None = None
) -> None:
    """Raise the error that a function of the schema has returned as a state, if it is one.

    Raises:
        Fenced, OutOfSequence, UnknownStream: that is what it says.
    """
    if state == "fenced":
        raise Fenced(stream_id, epoch)
    if state == "gap":
        raise OutOfSequence(stream_id, first_seq, last or 0)
    if state == "unknown":
        raise UnknownStream(stream_id)


# Streams as arguments and rows of the functions.


def parse_text(value: bytes) -> str:
    """Return a string that was stored with `text`."""
    return value.decode("utf-8", "surrogatepass")


def request_digest(principal: str, request_id: UUID) -> bytes:
    """Return the key of a request."""
    return bytes.fromhex(digest(principal, request_id.bytes))


def conversation_digest(conversation: Conversation) -> bytes:
    """Return the key of a conversation."""
    return bytes.fromhex(digest(conversation.principal, text(conversation.session_id)))


def owner_digest(principal: str) -> bytes:
    """Return the key of a principal."""
    return bytes.fromhex(digest(principal, b""))


def opening_arguments(
    session: DatabaseSession, lease: float, stream: NewStream, replaces: UUID | None = None
) -> tuple[Any, ...]:
    """Return the arguments of the function `open`."""
    agent = stream.agent
    return (
        session.store.now(),
        lease,
        stream.stream_id,
        request_digest(stream.principal, stream.request_id),
        text(stream.principal),
        stream.request_id,
        text(stream.fingerprint),
        uuid4(),
        None if agent is None else text(agent.agent_id),
        None if agent is None else text(agent.version),
        stream.question,
        replaces,
    )


_OPENING = 7  # the place of the unique name among the arguments


def handle_opening(
    session: DatabaseSession,
    stream: NewStream,
    arguments: Sequence[Any],
    row: Any,
    owned_until: float,
) -> Opened:
    """Return the stream that the function `open` has found or created.

    Raises:
        RequestConflict: the request is known with another fingerprint.
    """
    meta = parse_meta(row)
    created = row["opening"] == arguments[_OPENING]
    if created:
        session.owned.own_new(stream.stream_id, owned_until)
    elif meta.fingerprint != stream.fingerprint:
        raise RequestConflict(stream.request_id)
    return Opened(meta, created=created)


def parse_meta(row: Any) -> StreamMeta:
    """Return the description of a stream."""
    agent_id, version, outcome = row["agent_id"], row["version"], row["outcome"]
    return StreamMeta(
        stream_id=row["stream_id"],
        principal=parse_text(row["principal"]),
        request_id=row["request_id"],
        fingerprint=parse_text(row["fingerprint"]),
        epoch=row["epoch"],
        last_seq=row["last_seq"],
        opened_at=row["opened_at"],
        outcome=None if outcome is None else parse_text(outcome),
        ended_at=row["ended_at"],
        cancel_requested=row["cancel_requested"],
        body_gone=row["body_gone"],
        agent=None if agent_id is None else AgentVersion(parse_text(agent_id), parse_text(version)),
        epochs=parse_epochs(row["epochs"]),
    )


def parse_epochs(numbers: Sequence[int]) -> tuple[EpochStart, ...]:
    """Return the later epochs of a stream: the column has two numbers of each."""
    return tuple(map(EpochStart, numbers[::2], numbers[1::2]))


def parse_claim(row: Any) -> Claim:
    """Return a stream that was taken over."""
    return Claim(row["stream_id"], row["epoch"], row["last"], row["question"])
