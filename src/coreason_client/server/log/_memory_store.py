"""The data of the memory log, and what it drops to stay within its limit. No I/O, no lock."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Generic, TypeVar
from uuid import UUID

from ..errors import RequestConflict, UnknownStream
from ._memory_records import Stream, Turns, memory_of
from ._rules import are_notes_repeated, is_repeated
from .base import Conversation, LeaseState, NewStream, Notes

__all__ = ["MemoryStore", "TimeQueue"]

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
