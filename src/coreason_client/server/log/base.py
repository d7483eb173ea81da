"""The contract of a log. The server works with any log that fulfils it.

A stream is a numbered list of entries, opaque bytes, written by one producer and read by any number
of readers. The rules, each checked by the contract test suite:

* Request. A stream is opened for a request, which is a principal and a request_id. While the log
  knows the stream, opening the same request again returns the same stream; with another fingerprint
  it raises `RequestConflict`. Two openings at the same time create one stream.
* Numbers. Entries are numbered 1, 2, 3, … An append names the number of its first entry. It must
  follow the last entry, otherwise the append raises `OutOfSequence`. An append is atomic. A
  repeated append, whose entries the log already has in full from the same epoch, succeeds without
  effect: its first acknowledgement was lost. An append without entries stores nothing, but is
  checked like any other.
* Durability. When `append` returns, every process that shares the log can read the entries, and
  they survive the failures that the log promises to survive. Only appended entries are ever read.
* End. `close` appends the last entries and ends the stream in one step, so an ended stream always
  has a last entry that tells readers about the end. No append follows it.
* Epochs. An owner holds a stream by a lease and an epoch; the epoch of the opener is 1. After the
  lease has run out, another owner may claim the stream, which begins a later epoch. Exactly one
  claimant wins. An append or close with another epoch, or after the end, raises `Fenced`. A lease
  that ran out but was not claimed can still be renewed and used: only a claim takes a stream away.
  An owner may claim its own stream before its lease has run out.
* Epoch numbers. The number of an epoch is never used twice, also if the store has lost its latest
  state: it contains the time and a random part (`new_epoch`), and is greater than the one before.
  So an epoch is the unique name of a claim, and its order. The description of a stream has the
  first number of each epoch. Within one epoch, a number never gets two contents: a producer that
  finds that the store has lost entries may only send the same ones again.
* Cancel. Any process may request a cancel. The producer learns of it from its next append or
  renewal.
* Reading. A position is the number of an entry and the epoch in which it was written. `read`
  returns the entries after a position, a page at a time, and waits only if there are none. In the
  same atomic step it checks that the entry is still the one that was read, and otherwise raises
  `PositionGone`: the store has lost it, and another one may have its number. A position beyond the
  last entry is kept while its epoch is the current one of a running stream, because the producer
  may send the entries again; otherwise it is gone. Position 0 is never gone for this reason.
* Retention. It counts from the end of a stream: first its entries are dropped (`PositionGone`),
  later the whole stream (`UnknownStream`); then the request_id may be used for a new stream. A
  running stream never expires. A position at the end of an ended stream does not expire.
* Questions. The question of a stream is its request in the form in which the server stores it,
  opaque bytes for the log. It is given to `open`, and a claim returns it, so that the process that
  takes over the stream knows the request. The end of the stream drops it.
* Conversations. Turns are opaque bytes, kept in the order in which they were added, at most one for
  each stream. A turn has the epoch of its writer: a turn of a later epoch replaces it, and a turn
  of the same or an earlier epoch has no effect. A conversation expires when no turn was added for
  the final retention. It keeps its latest turns, up to `MAX_TURNS` turns and `MAX_TURN_BYTES`
  bytes, and always the newest one.

A `DurableLog` also keeps what a process needs to continue a durable stream:

* Journal. Notes are opaque bytes, numbered 1, 2, 3, … and stored in one step with the entries of
  the same append, under the same rules. An append may have notes and no entries. The end of a
  stream drops its journal.
* Durable claims. A durable stream belongs to an agent and a version of it. `claim_durable` takes
  over only streams of the same agent, those of another version one lease later. `claim_lost` takes
  over a durable stream only if it was not claimed for `UNCLAIMED_SECONDS`.
* Release. A producer may give a stream away: its epoch ends, and the stream can be claimed at once.
  A repeated release has no effect until the stream is claimed.

No operation needs two streams at once, or a stream and a conversation, so a store that is spread
over many machines can fulfil the contract. The time comes from a clock that is given to the log.
All methods except `wake_readers` may raise `LogUnavailable`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple
from uuid import UUID

__all__ = [
    "DEFAULT_LEASE",
    "MAX_TURNS",
    "MAX_TURN_BYTES",
    "PAGE_BYTES",
    "UNCLAIMED_SECONDS",
    "AgentVersion",
    "Claim",
    "Conversation",
    "DurableLog",
    "EpochStart",
    "Follower",
    "LeaseState",
    "NewStream",
    "Notes",
    "Opened",
    "Page",
    "StreamLog",
    "StreamMeta",
    "epoch_at",
]

DEFAULT_LEASE = 10.0
# A page ends with the entry that exceeds this size, whatever the requested number of entries: each
# of thousands of readers holds one page in memory.
PAGE_BYTES = 262_144
# After this time without a producer, any process ends a durable stream.
UNCLAIMED_SECONDS = 300.0
MAX_TURNS = 1000  # kept of one conversation
MAX_TURN_BYTES = 4 * 1024 * 1024  # kept of one conversation, and returned by one call


@dataclass(frozen=True, slots=True)
class NewStream:
    """The arguments of `open`.

    Attributes:
        stream_id: the id of the stream; used only if the request is new.
        principal: the owner of the stream.
        request_id: the id of the request.
        fingerprint: a hash of the request: the same id with another one is a conflict.
        question: the request as the server stores it, for a process that takes over the stream.
        agent: the agent of a durable stream, None for any other.
    """

    stream_id: UUID
    principal: str
    request_id: UUID
    fingerprint: str
    question: bytes = b""
    agent: "AgentVersion | None" = None


@dataclass(frozen=True, slots=True)
class AgentVersion:
    """The agent that may continue a durable stream, and the version of its code."""

    agent_id: str
    version: str


class EpochStart(NamedTuple):
    """The beginning of a later epoch: the number of its first entry, and its own number."""

    first_seq: int
    epoch: int


def epoch_at(epochs: Sequence[EpochStart], seq: int) -> int:
    """Return the epoch in which an entry was written; `epochs` are those of its stream."""
    return next((epoch for first, epoch in reversed(epochs) if first <= seq), 1)


@dataclass(frozen=True, slots=True)
class StreamMeta:
    """The description of a stream.

    Attributes:
        stream_id: its id.
        principal: its owner.
        request_id: the id of the request that it answers.
        fingerprint: a hash of this request.
        epoch: the current epoch; 1 is that of the opener.
        last_seq: the number of the last entry, 0 if there is none.
        opened_at: when it was opened, in seconds since 1970.
        outcome: why it ended, such as "complete"; None while it runs.
        ended_at: when it ended, in seconds since 1970; None while it runs.
        cancel_requested: True if its producer was asked to stop.
        body_gone: True once its entries were dropped.
        agent: the agent of a durable stream, None for any other.
        epochs: the beginnings of the epochs after that of the opener, in order.
    """

    stream_id: UUID
    principal: str
    request_id: UUID
    fingerprint: str
    epoch: int
    last_seq: int
    opened_at: float
    outcome: str | None
    ended_at: float | None
    cancel_requested: bool
    body_gone: bool
    agent: AgentVersion | None = None
    epochs: tuple[EpochStart, ...] = ()

    def epoch_of(self, seq: int) -> int:
        """Return the epoch in which an entry was written."""
        return epoch_at(self.epochs, seq)

    @property
    def epoch_start(self) -> int:
        """The number of the first entry of the current epoch."""
        return self.epochs[-1].first_seq if self.epochs else 1


class Notes(NamedTuple):
    """Notes for the journal; `first` is the number of the first one.

    Without notes, it is the number of the next one: the log must have all before it.
    """

    first: int
    notes: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Opened:
    """The stream of a request; `created` is True if this call of `open` created it."""

    meta: StreamMeta
    created: bool


class Page(NamedTuple):
    """Entries in order; `ended` is True if the stream has ended and no entry follows them.

    `epoch` is that of the last one; without entries, that of the position.
    """

    entries: Sequence[bytes]
    ended: bool
    epoch: int = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """A stream taken over from a producer whose lease ran out; its next entry is `last_seq + 1`."""

    stream_id: UUID
    epoch: int
    last_seq: int
    question: bytes = b""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The key of a conversation: its owner and its session."""

    principal: str
    session_id: str


class LeaseState(Enum):
    """The result of renewing a lease."""

    HELD = "held"
    CANCEL_REQUESTED = "cancel_requested"  # still held
    LOST = "lost"


class Follower(ABC):
    """A reader of one stream; call `close` at the end.

    `position` is the number of the last entry that was read, and `epoch` is that of this entry.
    """

    position: int
    epoch: int

    @abstractmethod
    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return the next page as `StreamLog.read` does, and advance `position` and `epoch`.

        While it waits, it may pass new entries directly to `write`, which returns True if it has
        taken them. Such entries are not returned, and the wait starts again.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop reading."""


class StreamLog(ABC):
    """A log; the docstring of its module, `coreason_client.server.log.base`, has the rules.

    Several methods have these arguments: `stream_id` is the id of a stream; `owner` is the name of
    the process that holds it, in the epoch `epoch`; `entries` are the bytes of packets, numbered
    from `first_seq`; `after_seq` and `after_epoch` are the number and the epoch of the last entry
    that a reader has; and `limit` is the maximum number of results.

    `begin_append` and `follow` are optional. They do the same as `append` and `read`, and a log may
    override them with a faster implementation for the many small appends of live streams.
    """

    shared: ClassVar[bool] = False
    """True if several processes can use the log at the same time."""

    outlives_process: ClassVar[bool] = True
    """True if another process can continue or end streams of one that has died."""

    may_forget: bool = False
    """True if a failover of the store may lose what it has acknowledged."""

    lease: float = DEFAULT_LEASE
    """The seconds for which `open`, `claim_lost` and `renew` hold a stream."""

    def __init_subclass__(cls, **options: object) -> None:
        """Use an overridden `append` or `read` also for `begin_append` or `follow`."""
        super().__init_subclass__(**options)
        if "append" in vars(cls) and "begin_append" not in vars(cls):
            cls.begin_append = StreamLog.begin_append  # type: ignore[method-assign]
        if "read" in vars(cls) and "follow" not in vars(cls):
            cls.follow = StreamLog.follow  # type: ignore[method-assign]

    @property
    def degraded(self) -> str | None:
        """The reason why new streams should go to another server, None if there is no reason."""
        return None

    @abstractmethod
    async def start(self, owner: str) -> None:
        """Prepare the log for an owner; a second start of the same owner has no effect.

        A log that is not shared ends all leases of earlier processes.
        """

    @abstractmethod
    async def stop(self, owner: str) -> None:
        """Release the resources of `start` when the last owner stops. It may be started again."""

    def on_store_changed(self, listener: Callable[[], None]) -> None:  # noqa: B027 - optional
        """Call a function when the store was restarted or replaced; a log may not notice it."""

    @abstractmethod
    async def open(self, stream: NewStream, owner: str) -> Opened:
        """Return the stream of the request; create it if there is none.

        Raises:
            RequestConflict: the request is known with another fingerprint.
        """

    @abstractmethod
    async def find(self, principal: str, request_id: UUID) -> StreamMeta | None:
        """Return the stream of a request, None if there is none."""

    @abstractmethod
    async def append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> bool:
        """Append entries; return True if a cancel was requested.

        Raises:
            Fenced: the epoch is over, or the stream has ended.
            OutOfSequence: `first_seq` does not follow the last entry.
            UnknownStream: there is no such stream.
        """

    def begin_append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> "bool | asyncio.Future[bool]":
        """Begin an `append`; return its result if it is already known, otherwise a future of it."""
        loop = asyncio.get_running_loop()
        return loop.create_task(self.append(stream_id, epoch, first_seq, entries))

    @abstractmethod
    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries, at least one, and end the stream; raises like `append`."""

    @abstractmethod
    async def read(
        self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
    ) -> Page:
        """Return up to `limit` entries after a position; if there are none, wait `wait` seconds.

        Raises:
            PositionGone: the entries that follow the position have been dropped, or the entry at
                the position is no longer the one of this epoch.
            UnknownStream: there is no such stream.
        """

    def follow(self, stream_id: UUID, after_seq: int, after_epoch: int = 1) -> Follower:
        """Return a reader of one stream that starts after a position, for this event loop."""
        return _ReadFollower(self, stream_id, after_seq, after_epoch)

    @abstractmethod
    def wake_readers(self) -> None:
        """Make every waiting `read` in this process return now, with or without entries."""

    @abstractmethod
    async def meta(self, stream_id: UUID) -> StreamMeta:
        """Return the description of a stream.

        Raises:
            UnknownStream: there is no such stream.
        """

    @abstractmethod
    async def request_cancel(self, stream_id: UUID) -> None:
        """Ask the producer to stop; it has no effect on a stream that has ended.

        Raises:
            UnknownStream: there is no such stream.
        """

    @abstractmethod
    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        """Renew the leases of streams held with these epochs."""

    @abstractmethod
    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out, at most `limit` of them."""

    @abstractmethod
    async def claim_held(self, stream_id: UUID, epoch: int, owner: str) -> Claim:
        """Begin the next epoch of a stream that the caller holds with this epoch.

        Raises:
            Fenced: the epoch is over, or the stream has ended.
            UnknownStream: there is no such stream.
        """

    @abstractmethod
    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds.

        It works in small steps, so that other calls do not wait for it, and its cost depends on
        what it drops. It works on a full store too.
        """

    @abstractmethod
    async def add_turn(
        self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int = 1
    ) -> None:
        """Add the turn of one stream to a conversation.

        It replaces a turn that was added with an earlier epoch. With the same or an earlier epoch
        it has no effect.
        """

    @abstractmethod
    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        """Return the latest turns of a conversation, oldest first; none for a limit below 1.

        Their total size is at most `MAX_TURN_BYTES`, even if an earlier release stored more. The
        newest turn is returned whatever its size.
        """


class DurableLog(StreamLog):
    """A log that keeps journals, so that another process can continue a durable stream."""

    def __init_subclass__(cls, **options: object) -> None:
        """Use an overridden `append` also for `begin_append`."""
        super().__init_subclass__(**options)
        if vars(cls).get("begin_append") is StreamLog.begin_append:
            cls.begin_append = DurableLog.begin_append  # type: ignore[method-assign]

    @abstractmethod
    async def append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        """Append entries and notes in one step; return True if a cancel was requested.

        Raises:
            Fenced: the epoch is over, or the stream has ended.
            OutOfSequence: the entries or the notes do not follow the last ones.
            UnknownStream: there is no such stream.
        """

    def begin_append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> "bool | asyncio.Future[bool]":
        """Begin an `append`; return its result if it is already known, otherwise a future of it."""
        loop = asyncio.get_running_loop()
        if notes is None:
            return loop.create_task(self.append(stream_id, epoch, first_seq, entries))
        return loop.create_task(self.append(stream_id, epoch, first_seq, entries, notes))

    @abstractmethod
    async def journal(self, stream_id: UUID, after: int = 0) -> Sequence[bytes]:
        """Return notes of a running stream in order; those up to `after` are left out.

        One call may return a part of them, but never none if there are more.

        Raises:
            UnknownStream: there is no such stream.
        """

    @abstractmethod
    async def claim_durable(self, owner: str, agent: AgentVersion, limit: int) -> Sequence[Claim]:
        """Take over unfinished durable streams of an agent whose lease ran out."""

    @abstractmethod
    async def release(self, stream_id: UUID, epoch: int) -> None:
        """Give up a durable stream, so that another process can claim it at once.

        A repetition has no effect until another process claims it.

        Raises:
            Fenced: the epoch is over, or the stream has ended.
            UnknownStream: there is no such stream.
        """


class _ReadFollower(Follower):
    """The default follower: it calls `read` for each page."""

    def __init__(self, log: StreamLog, stream_id: UUID, after_seq: int, after_epoch: int) -> None:
        self.position = after_seq
        self.epoch = after_epoch
        self._log = log
        self._stream_id = stream_id

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return the result of `StreamLog.read`."""
        page = await self._log.read(self._stream_id, self.position, limit, wait, self.epoch)
        self.position += len(page.entries)
        self.epoch = page.epoch
        return page

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
