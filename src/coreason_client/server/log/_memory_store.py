"""The data of the memory log, and what it drops to stay within its limit. No I/O, no lock."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Generic, TypeVar
from uuid import UUID

from ..errors import RequestConflict, UnknownStream
from ._rules import (
    are_notes_repeated,
    begin_epoch,
    count_latest_turns,
    cut_page,
    is_repeated,
    make_page,
    new_epoch,
)
from .base import (
    MAX_TURN_BYTES,
    MAX_TURNS,
    Claim,
    Conversation,
    EpochStart,
    LeaseState,
    NewStream,
    Notes,
    Page,
    StreamMeta,
)

# The records of the memory log: a stream, a conversation. They are changed only under its lock.
#
# Sizes are those in memory. Beside its payload, an entry or a note takes a bytes object and a place
# in a list; a stream, a turn and a conversation take objects, ids and places in tables.

# Bytes beside the payload, measured with CPython 3.11 on a 64-bit machine.
_ENTRY, _STREAM, _TURN, _CONVERSATION = 48, 1200, 280, 750


def memory_of(entries: Sequence[bytes]) -> int:
    """Return the size of entries or notes in memory."""
    return sum(map(len, entries)) + _ENTRY * len(entries)


class Stream:
    """One stream with its entries."""

    __slots__ = (
        "body_gone",
        "cancel_requested",
        "claimed_note",
        "claimed_seq",
        "ended_at",
        "entries",
        "epoch",
        "epochs",
        "journal",
        "last_seq",
        "lease_until",
        "new",
        "opened_at",
        "outcome",
        "released",
        "size",
    )

    def __init__(self, new: NewStream, now: float, lease_until: float) -> None:
        self.new = new
        self.entries: list[bytes] = []
        self.size = 0
        self.epoch = 1
        self.last_seq = 0
        self.journal: list[bytes] = []
        # The state at the beginning of the current epoch.
        self.claimed_seq = self.claimed_note = 0
        self.epochs: tuple[EpochStart, ...] = ()
        self.released: int | None = None  # the epoch that gave it away, until it is claimed
        self.lease_until = lease_until
        self.opened_at = now
        self.outcome: str | None = None
        self.ended_at: float | None = None
        self.cancel_requested = False
        self.body_gone = False

    @property
    def record_size(self) -> int:
        """The size of the stream without its entries and its journal."""
        return _STREAM + len(self.new.question)

    def meta(self) -> StreamMeta:
        new = self.new
        return StreamMeta(
            stream_id=new.stream_id,
            principal=new.principal,
            request_id=new.request_id,
            fingerprint=new.fingerprint,
            epoch=self.epoch,
            last_seq=self.last_seq,
            opened_at=self.opened_at,
            outcome=self.outcome,
            ended_at=self.ended_at,
            cancel_requested=self.cancel_requested,
            body_gone=self.body_gone,
            agent=new.agent,
            epochs=self.epochs,
        )

    def is_lost(self, now: float, unclaimed: float) -> bool:
        """Return True if any process may end the stream, because it has no producer."""
        wait = 0.0 if self.new.agent is None else unclaimed
        return self.lease_until + wait <= now

    def claim(self, lease_until: float) -> Claim:
        """Begin the next epoch for a new owner."""
        self._begin_epoch(lease_until)
        self.released = None
        return Claim(self.new.stream_id, self.epoch, self.last_seq, self.new.question)

    def release(self, now: float) -> None:
        """Begin an epoch without an owner."""
        self.released = self.epoch
        self._begin_epoch(now)

    def _begin_epoch(self, lease_until: float) -> None:
        self.epochs = begin_epoch(self.epochs, self.last_seq, new_epoch())
        self.epoch = self.epochs[-1].epoch
        self.lease_until = lease_until
        self.claimed_seq, self.claimed_note = self.last_seq, len(self.journal)

    def page(self, after_seq: int, after_epoch: int, limit: int) -> Page:
        return make_page(
            self.new.stream_id,
            after_seq,
            after_epoch,
            cut_page(self.entries[after_seq : after_seq + limit]),
            last_seq=self.last_seq,
            epochs=self.epochs,
            ended=self.outcome is not None,
            body_gone=self.body_gone,
        )

    def drop_journal(self) -> int:
        """Drop the journal; return how many bytes were freed."""
        freed = memory_of(self.journal)
        self.journal = []
        return freed

    def drop_body(self) -> int:
        """Drop the entries; return how many bytes were freed."""
        freed, self.size = self.size, 0
        self.entries = []
        self.body_gone = True
        return freed


class Turns:
    """The turns of one conversation, in order, at most one for each stream."""

    __slots__ = ("by_stream", "conversation", "epochs", "size", "touched_at")

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.by_stream: dict[UUID, bytes] = {}
        self.epochs: dict[UUID, int] = {}
        self.size = 0
        self.touched_at = 0.0

    @property
    def memory(self) -> int:
        """The size in memory; `size` is that of the turns alone."""
        if not self.by_stream:
            return 0
        return _CONVERSATION + self.size + _TURN * len(self.by_stream)

    def takes(self, stream_id: UUID, epoch: int) -> bool:
        """Return True if a turn is new, or replaces one of an earlier epoch."""
        return epoch > self.epochs.get(stream_id, 0)

    def add(self, stream_id: UUID, turn: bytes, epoch: int) -> int:
        """Add a turn and drop the oldest ones that exceed the limits of a conversation.

        Return by how many bytes the conversation has grown; the number may be negative.
        """
        before = self.memory
        self.size += len(turn) - len(self.by_stream.get(stream_id, b""))
        self.by_stream[stream_id] = turn
        self.epochs[stream_id] = epoch
        if len(self.by_stream) > MAX_TURNS or self.size > MAX_TURN_BYTES:
            sizes = map(len, reversed(self.by_stream.values()))
            kept = count_latest_turns(sizes, MAX_TURNS, MAX_TURN_BYTES)
            while len(self.by_stream) > kept:
                self.drop_oldest()
        return self.memory - before

    def drop_oldest(self) -> int:
        """Drop the oldest turn; return how many bytes were freed."""
        before, oldest = self.memory, next(iter(self.by_stream))
        del self.epochs[oldest]
        self.size -= len(self.by_stream.pop(oldest))
        return before - self.memory

    def clear(self) -> int:
        """Drop all turns; return how many bytes were freed."""
        freed, self.size = self.memory, 0
        self.by_stream = {}
        self.epochs = {}
        return freed


# A queue of items ordered by time; finding the items that are due does not scan the others.

T = TypeVar("T")


class TimeQueue(Generic[T]):
    """Items with times, in the order of the times; they may be added in any order."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._numbers = count()  # keeps items with equal times in order, and never compares items

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, at: float, item: T) -> None:
        """Add an item with its time."""
        heapq.heappush(self._heap, (at, next(self._numbers), item))

    def take(self, until: float, limit: int) -> list[tuple[float, T]]:
        """Remove and return up to `limit` items with a time up to `until`, each with its time."""
        taken: list[tuple[float, T]] = []
        while self._heap and self._heap[0][0] <= until and len(taken) < limit:
            at, _, item = heapq.heappop(self._heap)
            taken.append((at, item))
        return taken


_EXPIRED_AT_ONCE = 200  # streams or conversations; then other tasks of the event loop run


class MemoryStore:
    """Streams and conversations; past `max_bytes`, those that may be dropped are dropped."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        self.streams: dict[UUID, Stream] = {}
        self.requests: dict[tuple[str, UUID], Stream] = {}
        self.running: dict[UUID, Stream] = {}
        self.ended: dict[UUID, Stream] = {}  # with their entries, in the order of their ends
        self.conversations: dict[Conversation, Turns] = {}  # ordered by their last change
        # Ended streams by the time of their end, and conversations by the time of their last turn.
        self._with_entries: TimeQueue[Stream] = TimeQueue()
        self._without_entries: TimeQueue[Stream] = TimeQueue()
        self._idle: TimeQueue[Turns] = TimeQueue()

    def get(self, stream_id: UUID) -> Stream:
        """Return a stream.

        Raises:
            UnknownStream: there is no such stream.
        """
        try:
            return self.streams[stream_id]
        except KeyError:
            raise UnknownStream(stream_id) from None

    def open(self, new: NewStream, now: float, lease_until: float) -> tuple[Stream, bool]:
        """Return the stream of a request, and True if this call created it.

        Raises:
            RequestConflict: the request is known with another fingerprint.
        """
        key = (new.principal, new.request_id)
        known = self.requests.get(key)
        if known is not None:
            if known.new.fingerprint != new.fingerprint:
                raise RequestConflict(new.request_id)
            return known, False
        created = Stream(new, now, lease_until)
        self.requests[key] = created
        self.streams[new.stream_id] = self.running[new.stream_id] = created
        self.grow(created.record_size)
        return created, True

    def free_request(self, new: NewStream, replaced: UUID | None) -> None:
        """Let the request of a new stream name no stream, if it names the replaced one."""
        key = (new.principal, new.request_id)
        known = self.requests.get(key)
        if known is not None and known.new.stream_id == replaced:
            del self.requests[key]

    def change_question(self, stream: Stream, question: bytes) -> None:
        """Replace the question of a running stream."""
        added = len(question) - len(stream.new.question)
        stream.new = replace(stream.new, question=question)
        self.grow(added)

    def append(
        self,
        stream: Stream,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        """Append; return False if the stream already has these entries.

        Raises:
            Fenced: the epoch is over, or the stream has ended.
            OutOfSequence: the append does not follow the last entry.
        """
        repeated = is_repeated(
            stream.new.stream_id,
            epoch,
            first_seq,
            len(entries),
            current_epoch=stream.epoch,
            last_seq=stream.last_seq,
            ended=stream.outcome is not None,
            claimed_seq=stream.claimed_seq,
        )
        if notes is not None:
            self._add_notes(stream, notes)
        if repeated:
            return False
        stream.entries += entries
        stream.last_seq += len(entries)
        added = memory_of(entries)
        stream.size += added
        self.grow(added)
        return True

    def _add_notes(self, stream: Stream, notes: Notes) -> None:
        if not are_notes_repeated(
            stream.new.stream_id,
            notes,
            last_note=len(stream.journal),
            claimed_note=stream.claimed_note,
            last_seq=stream.last_seq,
        ):
            stream.journal += notes.notes
            self.grow(memory_of(notes.notes))

    def renew(self, stream_id: UUID, epoch: int, until: float) -> LeaseState:
        """Renew a lease that is held with this epoch."""
        stream = self.running.get(stream_id)
        if stream is None or stream.epoch != epoch:
            return LeaseState.LOST
        stream.lease_until = until
        return LeaseState.CANCEL_REQUESTED if stream.cancel_requested else LeaseState.HELD

    def end(self, stream: Stream, outcome: str, now: float) -> None:
        """End a stream and drop its question."""
        stream_id = stream.new.stream_id
        stream.outcome = outcome
        self.size -= len(stream.new.question) + stream.drop_journal()
        stream.new = replace(stream.new, question=b"")
        stream.ended_at = now
        del self.running[stream_id]
        self.ended[stream_id] = stream
        self._with_entries.add(now, stream)
        self._free_memory()

    def add_turn(
        self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int, now: float
    ) -> None:
        """Add a turn to a conversation, or replace a turn of an earlier epoch."""
        turns = self.conversations.get(conversation)
        if turns is None:
            turns = Turns(conversation)
            self._idle.add(now, turns)
        elif not turns.takes(stream_id, epoch):
            return
        else:
            del self.conversations[conversation]
        self.conversations[conversation] = turns
        turns.touched_at = now
        self.grow(turns.add(stream_id, turn, epoch))

    def grow(self, added: int) -> None:
        """Count bytes that were added, and free memory if there are too many."""
        self.size += added
        if self.size > self.max_bytes:
            self._free_memory()

    def _free_memory(self) -> None:
        while self.size > self.max_bytes and len(self.ended) > 1:
            self._drop_body(next(iter(self.ended)))
        while self.size > self.max_bytes and self._forget_first_ended():
            pass
        while self.size > self.max_bytes and self.conversations:
            turns = next(iter(self.conversations.values()))
            if len(turns.by_stream) > 1:
                self.size -= turns.drop_oldest()
            elif len(self.conversations) > 1:
                self._forget_conversation(turns)
            else:
                return

    def _drop_body(self, stream_id: UUID) -> None:
        self.size -= self.ended.pop(stream_id).drop_body()

    def _forget_first_ended(self) -> bool:
        """Forget the stream without entries that ended first; return False if there is none."""
        for queue in (self._without_entries, self._with_entries):
            for ended_at, stream in queue.take(math.inf, 1):
                if stream.body_gone:
                    self._forget_stream(stream)
                    return True
                queue.add(ended_at, stream)
        return False

    def _forget_stream(self, stream: Stream) -> None:
        new = stream.new
        del self.streams[new.stream_id]
        self.free_request(new, new.stream_id)
        self.size -= stream.record_size

    # The steps of an expiry; each returns how many items it has checked.

    def expire_entries(self, until: float) -> int:
        """Drop the entries of the streams that ended first."""
        streams = self._with_entries.take(until, _EXPIRED_AT_ONCE)
        for ended_at, stream in streams:
            if not stream.body_gone:
                self._drop_body(stream.new.stream_id)
            self._without_entries.add(ended_at, stream)
        return len(streams)

    def expire_streams(self, until: float) -> int:
        """Forget the streams without entries that ended first."""
        streams = self._without_entries.take(until, _EXPIRED_AT_ONCE)
        for _, stream in streams:
            self._forget_stream(stream)
        return len(streams)

    def expire_conversations(self, until: float) -> int:
        """Forget the conversations that have been idle the longest."""
        conversations = self._idle.take(until, _EXPIRED_AT_ONCE)
        for _, turns in conversations:
            if self.conversations.get(turns.conversation) is not turns:
                continue  # it was dropped to free memory
            if turns.touched_at > until:
                self._idle.add(turns.touched_at, turns)
            else:
                self._forget_conversation(turns)
        return len(conversations)

    def _forget_conversation(self, turns: Turns) -> None:
        del self.conversations[turns.conversation]
        self.size -= turns.clear()
