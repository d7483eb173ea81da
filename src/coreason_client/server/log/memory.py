"""The log in the memory of one process. It ends with the process."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from ..errors import Fenced
from ._live import LiveLog, LocalFollower, Waiters
from ._memory_store import MemoryStore, Stream
from ._memory_tasks import MemoryTasks
from ._rules import check_last_entries, may_claim_durable
from .base import (
    DEFAULT_LEASE,
    UNCLAIMED_SECONDS,
    AgentVersion,
    Claim,
    Conversation,
    Follower,
    LeaseState,
    NewStream,
    Notes,
    Opened,
    Page,
    StreamMeta,
)

__all__ = ["MemoryStreamLog"]

DEFAULT_MAX_BYTES = 512 * 1024 * 1024


class MemoryStreamLog(LiveLog):
    """Streams in memory, the default log. It needs no installation, and keeps nothing on disk.

    Args:
        clock: a function that returns the time in seconds since 1970, for tests.
        lease: the seconds for which a producer holds a stream without renewing it.
        max_bytes: the memory for streams, entries, questions and turns together. Above it, the log
            drops the entries of the streams that ended first before their retention is over, then
            these streams themselves, then the oldest turns of the conversations that have been idle
            the longest. It always keeps running streams, the stream that ended last and the newest
            turn.
    """

    shared = False
    outlives_process = False

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        lease: float = DEFAULT_LEASE,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self.lease = lease
        self._clock = clock
        # Applications in several threads may share one log.
        self._lock = threading.Lock()
        self._waiters = Waiters()
        self._store = MemoryStore(max_bytes)
        self.tasks = MemoryTasks(self._store, self._lock, self._waiters, clock, lease)

    async def start(self, owner: str) -> None:
        """Do nothing: a log in memory is always ready."""

    async def stop(self, owner: str) -> None:
        """Do nothing: the streams stay for the next start."""

    async def open(self, stream: NewStream, owner: str) -> Opened:
        """Return the stream of the request; create it if there is none."""
        with self._lock:
            now = self._clock()
            found, created = self._store.open(stream, now, now + self.lease)
            return Opened(found.meta(), created)

    async def find(self, principal: str, request_id: UUID) -> StreamMeta | None:
        """Return the stream of a request, None if there is none."""
        with self._lock:
            stream = self._store.requests.get((principal, request_id))
            return None if stream is None else stream.meta()

    def _begin_append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        """Append, and return the result at once."""
        with self._lock:
            stream = self._store.get(stream_id)
            if self._store.append(stream, epoch, first_seq, entries, notes) and entries:
                self._waiters.wake(stream_id)
            return stream.cancel_requested

    begin_append = _begin_append

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        """Append the last entries and end the stream."""
        check_last_entries(entries)
        with self._lock:
            stream = self._store.get(stream_id)
            if not self._store.append(stream, epoch, first_seq, entries):
                return
            self._store.end(stream, outcome, self._clock())
            self._waiters.wake(stream_id)

    def _make_follower(self, stream_id: UUID, after_seq: int, after_epoch: int) -> Follower:
        position = (stream_id, after_seq, after_epoch)
        return LocalFollower(*position, self._lock, self._waiters, self._page, self._load)

    def wake_readers(self) -> None:
        """Make every waiting `read` return now, with or without entries."""
        with self._lock:
            self._waiters.wake_all()

    async def meta(self, stream_id: UUID) -> StreamMeta:
        """Return the description of a stream."""
        with self._lock:
            return self._store.get(stream_id).meta()

    async def request_cancel(self, stream_id: UUID) -> None:
        """Ask the producer to stop."""
        with self._lock:
            stream = self._store.get(stream_id)
            if stream.outcome is None:
                stream.cancel_requested = True

    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        """Renew the leases of streams held with these epochs."""
        with self._lock:
            until = self._clock() + self.lease
            return {id_: self._store.renew(id_, epoch, until) for id_, epoch in held.items()}

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        """Take over unfinished streams whose lease ran out."""
        with self._lock:
            now = self._clock()
            return self._claim(now, limit, lambda stream: stream.is_lost(now, UNCLAIMED_SECONDS))

    async def claim_durable(self, owner: str, agent: AgentVersion, limit: int) -> Sequence[Claim]:
        """Take over unfinished durable streams of an agent whose lease ran out."""
        with self._lock:
            now = self._clock()
            return self._claim(
                now,
                limit,
                lambda stream: (
                    stream.new.agent is not None
                    and may_claim_durable(
                        now, self.lease, stream.lease_until, stream.new.agent, agent
                    )
                ),
            )

    def _claim(self, now: float, limit: int, is_claimable: Callable[[Stream], bool]) -> list[Claim]:
        claims: list[Claim] = []
        for stream in self._store.running.values():
            if len(claims) >= limit:
                break
            if is_claimable(stream):
                claims.append(stream.claim(now + self.lease))
        return claims

    async def claim_held(self, stream_id: UUID, epoch: int, owner: str) -> Claim:
        """Begin the next epoch of a stream that the caller holds with this epoch."""
        with self._lock:
            stream = self._store.get(stream_id)
            if stream.epoch != epoch or stream.outcome is not None:
                raise Fenced(stream_id, epoch)
            return stream.claim(self._clock() + self.lease)

    async def journal(self, stream_id: UUID, after: int = 0) -> Sequence[bytes]:
        """Return the notes of a running stream after a number."""
        with self._lock:
            return self._store.get(stream_id).journal[after:]

    async def release(self, stream_id: UUID, epoch: int) -> None:
        """Give up a durable stream, so that it can be claimed at once."""
        with self._lock:
            stream = self._store.get(stream_id)
            if stream.outcome is None and stream.released == epoch:
                return
            if stream.epoch != epoch or stream.outcome is not None:
                raise Fenced(stream_id, epoch)
            stream.release(self._clock())

    async def expire(self, retention: float, final_retention: float) -> None:
        """Drop entries and, later, streams and conversations, by their age in seconds."""
        now = self._clock()
        final = now - final_retention
        bodies = max(now - retention, final)
        await self._in_steps(lambda: self._store.expire_entries(bodies))
        await self._in_steps(lambda: self._store.expire_streams(final))
        await self._in_steps(lambda: self._store.expire_conversations(final))

    async def add_turn(
        self, conversation: Conversation, stream_id: UUID, turn: bytes, epoch: int = 1
    ) -> None:
        """Add the turn of one stream to a conversation."""
        with self._lock:
            self._store.add_turn(conversation, stream_id, turn, epoch, self._clock())

    async def turns(self, conversation: Conversation, limit: int) -> Sequence[bytes]:
        """Return the latest turns of a conversation, oldest first."""
        with self._lock:
            turns = self._store.conversations.get(conversation)
            if turns is None or limit < 1:
                return []
            return list(turns.by_stream.values())[-limit:]

    def _page(self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int) -> Page:
        with self._lock:
            return self._store.get(stream_id).page(after_seq, after_epoch, limit)

    async def _load(self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int) -> Page:
        return self._page(stream_id, after_seq, after_epoch, limit)

    async def _in_steps(self, step: Callable[[], int]) -> None:
        """Repeat a step until it finds nothing; other tasks run in between."""
        while True:
            with self._lock:
                if not step():
                    return
            await asyncio.sleep(0)
