"""The contract of a log. Whatever fulfils it can stand behind the server.

A stream is a numbered list of entries, opaque bytes, written by one producer and read by anybody.
The rules, each held by the contract test suite:

* Request. A stream is opened for a request, which is a principal and a request_id. While the log
  knows the stream, opening the same request again gives the same stream; with another fingerprint
  it is a `RequestConflict`. Two openings at once give one stream.
* Numbers. Entries are numbered 1, 2, 3, … An append names the number of its first entry, and it
  must follow the last one, or it is `OutOfSequence`. An append is all or nothing. One that the log
  already holds in full, from the same epoch, is acknowledged again: the acknowledgement was lost.
* Acknowledged means kept. When `append` returns, the entries can be read, by any process that
  shares the log, and survive what the log promises to survive. What was not appended is never read.
* End. `close` appends the last entries and ends the stream in one step, so an ended stream always
  has a last entry that says so. Nothing is appended after it.
* Epochs. An owner holds a stream by a lease and an epoch, 1 for the opener. A lease that ran out
  may be claimed by somebody else, which raises the epoch: exactly one claimant wins it. An append
  or close of an older epoch, or after the end, is `Fenced`. A lease that ran out but was not
  claimed can still be renewed and appended under: only a claim takes a stream away.
* Cancel. Anybody may ask for a cancel. The producer learns of it from its next append or renewal.
* Reading. `read` returns the entries after a position, a page at a time, and waits only when there
  is nothing. A position beyond the last entry reads as nothing yet.
* Retention. It counts from the end: first the entries go (`PositionGone`), later all the rest
  (`UnknownStream`), and then the request_id is free again. An unfinished stream never expires.
  A position at the very end of an ended stream misses nothing and is never gone.
* Questions. A stream is opened with a question, opaque bytes. A claim returns it, so that whoever
  takes over a stream knows what was asked. The end of the stream drops it.
* Conversations. Turns are opaque bytes, kept in the order of their adding, at most once for each
  stream, and dropped with the final status when nothing was added for as long. A conversation
  keeps its latest turns, up to `MOST_TURNS` turns and `MOST_TURN_BYTES` bytes, and always the
  newest one.

No operation needs to touch two streams at once, nor a stream and a conversation, so that a store
spread over many machines can fulfil it. Time comes from a clock that the log is given.
All methods but `nudge` may raise `LogUnavailable`.
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
    "MOST_TURNS",
    "MOST_TURN_BYTES",
    "PAGE_BYTES",
    "Claim",
    "Conversation",
    "Follower",
    "LeaseState",
    "NewStream",
    "Opened",
    "Page",
    "StreamLog",
    "StreamMeta",
]

DEFAULT_LEASE = 10.0
# A page ends with the entry that passes this, however many entries were asked for: a reader holds
# one page, and thousands of readers hold thousands.
PAGE_BYTES = 262_144
MOST_TURNS = 1000  # kept of one conversation
MOST_TURN_BYTES = 4 * 1024 * 1024  # kept of one conversation, and returned at once


@dataclass(frozen=True, slots=True)
class NewStream:
    """What a stream is opened with; the id is used if the request is new."""

    stream_id: UUID
    principal: str
    request_id: UUID
    fingerprint: str
    question: bytes = b""


@dataclass(frozen=True, slots=True)
class StreamMeta:
    """What is known of a stream besides its entries; `outcome` is None while it runs."""

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


@dataclass(frozen=True, slots=True)
class Opened:
    """The stream of a request, and whether this opening made it."""

    meta: StreamMeta
    created: bool


class Page(NamedTuple):
    """Entries in order; `ended` says that nothing will ever follow them."""

    entries: Sequence[bytes]
    ended: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A stream taken over from a producer that is gone; the next entry is `last_seq + 1`.

    `question` is what the stream was opened with.
    """

    stream_id: UUID
    epoch: int
    last_seq: int
    question: bytes = b""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Whose conversation it is, and which."""

    principal: str
    session_id: str


class LeaseState(Enum):
    """What a renewal found."""

    HELD = "held"
    CANCEL_REQUESTED = "cancel_requested"  # still held
    LOST = "lost"


class Follower(ABC):
    """A reader of one stream, from `position` on; `close` it."""

    position: int

    @abstractmethod
    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return the next page as `StreamLog.read` would, and move on behind it.

        While nobody needs to be asked, entries may also go straight to `write`, which says whether
        it took them; then they are not returned, and the time to wait begins anew.
        """

    @abstractmethod
    def close(self) -> None:
        """Read no more."""


class StreamLog(ABC):
    """The contract at the head of this module, as methods.

    `begin_append` and `follow` need not be written: they are `append` and `read` for the many small
    packets of live streams, where a log may have a shorter way.
    """

    shared: ClassVar[bool] = False
    """Whether several processes can work on the log at once."""

    lease: float = DEFAULT_LEASE
    """For how many seconds an opening, a claim or a renewal holds a stream."""

    def __init_subclass__(cls, **options: object) -> None:
        """Let a subclass that replaces `append` or `read` replace the shorter way too."""
        super().__init_subclass__(**options)
        if "append" in vars(cls) and "begin_append" not in vars(cls):
            cls.begin_append = StreamLog.begin_append  # type: ignore[method-assign]
        if "read" in vars(cls) and "follow" not in vars(cls):
            cls.follow = StreamLog.follow  # type: ignore[method-assign]

    @abstractmethod
    async def start(self, owner: str) -> None:
        """Make the log ready for an owner; a second start of the same owner changes nothing.

        A log that is not shared lets all leases of an earlier process run out at once.
        """

    @abstractmethod
    async def stop(self, owner: str) -> None:
        """Let go of what `start` took when the last owner stops; the log may be started again."""

    @abstractmethod
    async def open(self, stream: NewStream, owner: str) -> Opened:
        """Return the stream of the request, made now if there is none.

        Raises:
            RequestConflict: the request is known with another fingerprint.
        """

    @abstractmethod
    async def find(self, principal: str, request_id: UUID) -> StreamMeta | None:
        """Return the stream of a request, None when there is none."""

    @abstractmethod
    async def append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> bool:
        """Append entries; return whether somebody has asked for a cancel.

        Raises:
            Fenced: the epoch is over, or the stream has ended.
            OutOfSequence: `first_seq` does not follow the last entry.
            UnknownStream: there is no such stream.
        """

    def begin_append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> "bool | asyncio.Future[bool]":
        """Begin an `append`; return its result if it is known at once, otherwise a future of it."""
        loop = asyncio.get_running_loop()
        return loop.create_task(self.append(stream_id, epoch, first_seq, entries))

    @abstractmethod
    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries, at least one, and end the stream. Raises what `append` does."""

    @abstractmethod
    async def read(self, stream_id: UUID, after_seq: int, limit: int, wait: float) -> Page:
        """Return up to `limit` entries after a position; if there are none, wait so many seconds.

        Raises:
            PositionGone: the entries that follow the position have been dropped.
            UnknownStream: there is no such stream.
        """

    def follow(self, stream_id: UUID, after_seq: int) -> Follower:
        """Return a reader of one stream from a position on, for this event loop."""
        return _Reads(self, stream_id, after_seq)

    @abstractmethod
    def nudge(self) -> None:
        """Make every `read` that waits in this process return with what there is."""

    @abstractmethod
    async def meta(self, stream_id: UUID) -> StreamMeta:
        """Describe a stream.

        Raises:
            UnknownStream: there is no such stream.
        """

    @abstractmethod
    async def request_cancel(self, stream_id: UUID) -> None:
        """Ask the producer to stop; without effect on a stream that has ended.

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
    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds.

        It works in steps and costs what it drops, so that it holds nobody up. A store that is full
        can still do it.
        """

    @abstractmethod
    async def add_turn(self, conversation: Conversation, stream_id: UUID, turn: bytes) -> None:
        """Add what one stream contributed to a conversation; a second time changes nothing."""

    @abstractmethod
    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        """Return the latest turns of a conversation, oldest first; none for a limit below 1.

        They have up to `MOST_TURN_BYTES` bytes together, also in a store that holds more of an
        earlier release; the newest one is returned whatever its size.
        """


class _Reads(Follower):
    """Each page by a `read` of its own."""

    def __init__(self, log: StreamLog, stream_id: UUID, after_seq: int) -> None:
        self.position = after_seq
        self._log = log
        self._stream_id = stream_id

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return what `StreamLog.read` returns."""
        page = await self._log.read(self._stream_id, self.position, limit, wait)
        self.position += len(page.entries)
        return page

    def close(self) -> None:
        """Nothing is kept between the pages."""
