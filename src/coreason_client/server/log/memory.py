"""The log that lives in the memory of one process, and dies with it."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from uuid import UUID

from ..errors import RequestConflict, UnknownStream
from ._due import Due
from ._records import Stream, Turns
from ._rules import is_repeated
from ._waiters import Waiters, WaitingFollower
from .base import (
    DEFAULT_LEASE,
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
_EXPIRED_AT_ONCE = 200  # streams or conversations; then the event loop gets its turn


class MemoryStreamLog(StreamLog):
    """Streams in memory. The default: nothing to install, nothing survives the process.

    `max_bytes` bounds entries, questions and turns together. Past it the entries of the streams
    that ended first are dropped before their time, and after them the oldest turns of the
    conversations that were idle the longest. Streams that run, the stream that ended last and the
    newest turn are kept even then.
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
        self._streams: dict[UUID, Stream] = {}
        self._requests: dict[tuple[str, UUID], Stream] = {}
        self._running: dict[UUID, Stream] = {}
        self._ended: dict[UUID, Stream] = {}  # in the order of their ends, with their entries
        self._conversations: dict[Conversation, Turns] = {}  # the one that changed last is last
        # Streams by their end, first with their entries and then without, and conversations.
        self._with_entries: Due[Stream] = Due()
        self._without_entries: Due[Stream] = Due()
        self._idle: Due[Turns] = Due()

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
                made = Stream(stream, now, now + self.lease)
                self._requests[key] = made
                self._streams[stream.stream_id] = self._running[stream.stream_id] = made
                self._grow(len(stream.question))
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
            self._size -= len(stream.new.question)
            stream.new = replace(stream.new, question=b"")
            stream.ended_at = self._clock()
            del self._running[stream_id]
            self._ended[stream_id] = stream
            self._with_entries.add(stream.ended_at, stream)
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
        now = self._clock()
        final = now - final_retention
        bodies = max(now - retention, final)
        await self._in_steps(lambda: self._expire_entries(bodies))
        await self._in_steps(lambda: self._expire_streams(final))
        await self._in_steps(lambda: self._expire_conversations(final))

    async def add_turn(self, conversation: Conversation, stream_id: UUID, turn: bytes) -> None:
        """Add what one stream contributed to a conversation."""
        with self._lock:
            turns = self._conversations.get(conversation)
            now = self._clock()
            if turns is None:
                turns = Turns(conversation)
                self._idle.add(now, turns)
            elif stream_id in turns.by_stream:
                return
            else:
                del self._conversations[conversation]
            self._conversations[conversation] = turns
            turns.touched_at = now
            self._grow(turns.add(stream_id, turn))

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

    async def _in_steps(self, step: Callable[[], int]) -> None:
        """Repeat a step until it finds nothing, and let others work in between."""
        while True:
            with self._lock:
                if not step():
                    return
            await asyncio.sleep(0)

    # What follows is called under the lock.

    def _page(self, stream_id: UUID, after_seq: int, limit: int) -> Page:
        return self._get(stream_id).page(after_seq, limit)

    def _get(self, stream_id: UUID) -> Stream:
        try:
            return self._streams[stream_id]
        except KeyError:
            raise UnknownStream(stream_id) from None

    def _add(self, stream: Stream, epoch: int, first_seq: int, entries: Sequence[bytes]) -> bool:
        """Append, or return False when the log holds these entries already."""
        if is_repeated(
            stream.new.stream_id,
            epoch,
            first_seq,
            len(entries),
            current_epoch=stream.epoch,
            last_seq=stream.last_seq,
            ended=stream.outcome is not None,
        ):
            return False
        stream.entries += entries
        stream.last_seq += len(entries)
        added = sum(map(len, entries))
        stream.size += added
        self._grow(added)
        return True

    def _renew(self, stream_id: UUID, epoch: int, until: float) -> LeaseState:
        stream = self._running.get(stream_id)
        if stream is None or stream.epoch != epoch:
            return LeaseState.LOST
        stream.lease_until = until
        return LeaseState.CANCEL_REQUESTED if stream.cancel_requested else LeaseState.HELD

    def _grow(self, added: int) -> None:
        self._size += added
        if self._size > self._max_bytes:
            self._make_room()

    def _make_room(self) -> None:
        while self._size > self._max_bytes and len(self._ended) > 1:
            self._drop_body(next(iter(self._ended)))
        while self._size > self._max_bytes and self._conversations:
            turns = next(iter(self._conversations.values()))
            if len(turns.by_stream) > 1:
                self._size -= turns.drop_oldest()
            elif len(self._conversations) > 1:
                self._forget_conversation(turns)
            else:
                return

    def _drop_body(self, stream_id: UUID) -> None:
        self._size -= self._ended.pop(stream_id).drop_body()

    # One step of an expiry each; they return how much was looked at.

    def _expire_entries(self, until: float) -> int:
        streams = self._with_entries.take(until, _EXPIRED_AT_ONCE)
        for ended_at, stream in streams:
            if not stream.body_gone:
                self._drop_body(stream.new.stream_id)
            self._without_entries.add(ended_at, stream)
        return len(streams)

    def _expire_streams(self, until: float) -> int:
        streams = self._without_entries.take(until, _EXPIRED_AT_ONCE)
        for _, stream in streams:
            new = stream.new
            del self._streams[new.stream_id]
            del self._requests[new.principal, new.request_id]
        return len(streams)

    def _expire_conversations(self, until: float) -> int:
        conversations = self._idle.take(until, _EXPIRED_AT_ONCE)
        for _, turns in conversations:
            if self._conversations.get(turns.conversation) is not turns:
                continue  # it was dropped to make room
            if turns.touched_at > until:
                self._idle.add(turns.touched_at, turns)
            else:
                self._forget_conversation(turns)
        return len(conversations)

    def _forget_conversation(self, turns: Turns) -> None:
        del self._conversations[turns.conversation]
        self._size -= turns.clear()
