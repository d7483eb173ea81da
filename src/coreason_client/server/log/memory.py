"""The log that lives in the memory of one process, and dies with it."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from uuid import UUID

from ..errors import Fenced, OutOfSequence, PositionGone, RequestConflict, UnknownStream
from ._waiters import Waiters, WaitingFollower
from .base import (
    DEFAULT_LEASE,
    MOST_TURNS,
    PAGE_BYTES,
    Claim,
    Conversation,
    Follower,
    LeaseState,
    NewStream,
    Opened,
    Page,
    StreamLog,
    StreamMeta,
)

__all__ = ["MemoryStreamLog"]

DEFAULT_MAX_BYTES = 512 * 1024 * 1024


class _Stream:
    """One stream; changed only under the lock of its log."""

    __slots__ = (
        "body_gone",
        "cancel_requested",
        "ended_at",
        "entries",
        "epoch",
        "last_seq",
        "lease_until",
        "new",
        "opened_at",
        "outcome",
        "size",
    )

    def __init__(self, new: NewStream, now: float, lease_until: float) -> None:
        self.new = new
        self.entries: list[bytes] = []
        self.size = 0
        self.epoch = 1
        self.last_seq = 0
        self.lease_until = lease_until
        self.opened_at = now
        self.outcome: str | None = None
        self.ended_at: float | None = None
        self.cancel_requested = False
        self.body_gone = False

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
        )

    def page(self, after_seq: int, limit: int) -> Page:
        if self.body_gone and after_seq < self.last_seq:
            raise PositionGone(self.new.stream_id, after_seq)
        entries = self.entries[after_seq : after_seq + limit]
        if len(entries) > 1 and sum(map(len, entries)) > PAGE_BYTES:
            entries = _within_page(entries)
        ended = self.outcome is not None and after_seq + len(entries) >= self.last_seq
        return Page(entries, ended)

    def drop_body(self) -> int:
        """Drop the entries and return how many bytes that freed."""
        freed, self.size = self.size, 0
        self.entries = []
        self.body_gone = True
        return freed


class _Turns:
    """One conversation; a dict keeps the order and knows each stream once."""

    __slots__ = ("by_stream", "touched_at")

    def __init__(self) -> None:
        self.by_stream: dict[UUID, bytes] = {}
        self.touched_at = 0.0


class MemoryStreamLog(StreamLog):
    """Streams in memory. The default: nothing to install, nothing survives the process.

    Past `max_bytes` the entries of the streams that ended first are dropped before their time.
    """

    shared = False

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        lease: float = DEFAULT_LEASE,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self.lease = lease
        self._clock = clock
        self._max_bytes = max_bytes
        self._size = 0
        # Applications in several threads may share one log, as replicas share a store.
        self._lock = threading.Lock()
        self._waiters = Waiters()
        self._streams: dict[UUID, _Stream] = {}
        self._requests: dict[tuple[str, UUID], _Stream] = {}
        self._running: dict[UUID, _Stream] = {}
        self._ended: dict[UUID, _Stream] = {}  # in the order of their ends, with their entries
        self._conversations: dict[Conversation, _Turns] = {}

    async def start(self, owner: str) -> None:
        """Nothing to make ready."""

    async def stop(self, owner: str) -> None:
        """Nothing to let go of: the streams stay for the next start."""

    async def open(self, stream: NewStream, owner: str) -> Opened:
        """Return the stream of the request, made now if there is none."""
        key = (stream.principal, stream.request_id)
        with self._lock:
            known = self._requests.get(key)
            if known is None:
                now = self._clock()
                made = _Stream(stream, now, now + self.lease)
                self._requests[key] = made
                self._streams[stream.stream_id] = self._running[stream.stream_id] = made
                return Opened(made.meta(), created=True)
            if known.new.fingerprint != stream.fingerprint:
                raise RequestConflict(stream.request_id)
            return Opened(known.meta(), created=False)

    async def find(self, principal: str, request_id: UUID) -> StreamMeta | None:
        """Return the stream of a request, None when there is none."""
        with self._lock:
            stream = self._requests.get((principal, request_id))
            return None if stream is None else stream.meta()

    async def append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> bool:
        """Append entries; return whether somebody has asked for a cancel."""
        return self._append(stream_id, epoch, first_seq, entries)

    def begin_append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> bool:
        """Append at once."""
        return self._append(stream_id, epoch, first_seq, entries)

    def _append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> bool:
        with self._lock:
            stream = self._get(stream_id)
            if self._add(stream, epoch, first_seq, entries):
                self._waiters.wake(stream_id)
            return stream.cancel_requested

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream."""
        if not entries:
            raise ValueError("a stream ends with an entry that says so")
        with self._lock:
            stream = self._get(stream_id)
            if not self._add(stream, epoch, first_seq, entries):
                return
            stream.outcome = outcome
            stream.new = replace(stream.new, question=b"")
            stream.ended_at = self._clock()
            del self._running[stream_id]
            self._ended[stream_id] = stream
            self._make_room()
            self._waiters.wake(stream_id)

    async def read(self, stream_id: UUID, after_seq: int, limit: int, wait: float) -> Page:
        """Return up to `limit` entries after a position; if there are none, wait."""
        with closing(self._follower(stream_id, after_seq)) as follower:
            return await follower.next(limit, wait)

    def follow(self, stream_id: UUID, after_seq: int) -> Follower:
        """Return a reader of one stream from a position on."""
        return self._follower(stream_id, after_seq)

    def _follower(self, stream_id: UUID, after_seq: int) -> Follower:
        return WaitingFollower(
            stream_id, after_seq, self._lock, self._waiters, self._page, self._load
        )

    def nudge(self) -> None:
        """Make every `read` that waits return with what there is."""
        with self._lock:
            self._waiters.wake_all()

    async def meta(self, stream_id: UUID) -> StreamMeta:
        """Describe a stream."""
        with self._lock:
            return self._get(stream_id).meta()

    async def request_cancel(self, stream_id: UUID) -> None:
        """Ask the producer to stop."""
        with self._lock:
            stream = self._get(stream_id)
            if stream.outcome is None:
                stream.cancel_requested = True

    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        """Renew the leases of streams held with these epochs."""
        with self._lock:
            until = self._clock() + self.lease
            return {id_: self._renew(id_, epoch, until) for id_, epoch in held.items()}

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out."""
        claims: list[Claim] = []
        with self._lock:
            now = self._clock()
            for stream_id, stream in self._running.items():
                if len(claims) >= limit:
                    break
                if stream.lease_until <= now:
                    stream.epoch += 1
                    stream.lease_until = now + self.lease
                    claims.append(
                        Claim(stream_id, stream.epoch, stream.last_seq, stream.new.question)
                    )
        return claims

    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds."""
        with self._lock:
            now = self._clock()
            for stream_id, stream in list(self._ended.items()):
                if _age(stream, now) >= retention:
                    self._drop_body(stream_id)
            finished = (s for s in self._streams.values() if s.ended_at is not None)
            for stream in [s for s in finished if _age(s, now) >= final_retention]:
                self._forget(stream)
            for conversation, turns in list(self._conversations.items()):
                if now - turns.touched_at >= final_retention:
                    del self._conversations[conversation]

    async def add_turn(self, conversation: Conversation, stream_id: UUID, turn: bytes) -> None:
        """Add what one stream contributed to a conversation."""
        with self._lock:
            turns = self._conversations.setdefault(conversation, _Turns())
            turns.touched_at = self._clock()
            turns.by_stream.setdefault(stream_id, turn)
            if len(turns.by_stream) > MOST_TURNS:
                del turns.by_stream[next(iter(turns.by_stream))]

    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        """Return the latest turns of a conversation, oldest first."""
        with self._lock:
            turns = self._conversations.get(conversation)
            if turns is None or limit < 1:
                return []
            return list(turns.by_stream.values())[-limit:]

    async def _load(self, stream_id: UUID, after_seq: int, limit: int) -> Page:
        with self._lock:
            return self._page(stream_id, after_seq, limit)

    # What follows is called under the lock.

    def _page(self, stream_id: UUID, after_seq: int, limit: int) -> Page:
        return self._get(stream_id).page(after_seq, limit)

    def _get(self, stream_id: UUID) -> _Stream:
        try:
            return self._streams[stream_id]
        except KeyError:
            raise UnknownStream(stream_id) from None

    def _add(self, stream: _Stream, epoch: int, first_seq: int, entries: Sequence[bytes]) -> bool:
        """Append, or return False when the log holds these entries already."""
        last_seq = stream.last_seq
        repeated = first_seq + len(entries) - 1 <= last_seq
        if epoch != stream.epoch or (stream.outcome is not None and not repeated):
            raise Fenced(stream.new.stream_id, epoch)
        if repeated:
            return False
        if first_seq != last_seq + 1:
            raise OutOfSequence(stream.new.stream_id, first_seq, last_seq)
        stream.entries += entries
        stream.last_seq = last_seq + len(entries)
        added = sum(map(len, entries))
        stream.size += added
        self._size += added
        if self._size > self._max_bytes:
            self._make_room()
        return True

    def _renew(self, stream_id: UUID, epoch: int, until: float) -> LeaseState:
        stream = self._running.get(stream_id)
        if stream is None or stream.epoch != epoch:
            return LeaseState.LOST
        stream.lease_until = until
        return LeaseState.CANCEL_REQUESTED if stream.cancel_requested else LeaseState.HELD

    def _make_room(self) -> None:
        while self._size > self._max_bytes and len(self._ended) > 1:
            self._drop_body(next(iter(self._ended)))

    def _drop_body(self, stream_id: UUID) -> None:
        self._size -= self._ended.pop(stream_id).drop_body()

    def _forget(self, stream: _Stream) -> None:
        new = stream.new
        if new.stream_id in self._ended:
            self._drop_body(new.stream_id)
        del self._streams[new.stream_id]
        del self._requests[new.principal, new.request_id]


def _age(stream: _Stream, now: float) -> float:
    return 0.0 if stream.ended_at is None else now - stream.ended_at


def _within_page(entries: list[bytes]) -> list[bytes]:
    size = 0
    for count, entry in enumerate(entries, 1):
        size += len(entry)
        if size > PAGE_BYTES:
            return entries[:count]
    return entries
