"""The log in the memory of one process, with its tasks and deliveries. It ends with the process."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from uuid import UUID

from ..errors import Fenced
from ._live import LiveLog, LocalFollower, TaskWaiters, Waiters
from ._memory_store import MemoryStore, Stream
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
from .deliveries import Delivery, DeliveryStore
from .tasks import (
    KEPT_REVISIONS,
    Begun,
    StreamEnd,
    TaskChange,
    TaskPage,
    TaskQuery,
    TaskRecord,
    TaskStore,
    is_applied,
)

__all__ = [
    "MemoryDeliveries",
    "MemoryStreamLog",
    "MemoryTasks",
]

# Deliveries in memory.


class MemoryDeliveries(DeliveryStore):
    """Deliveries that end with the process."""

    def __init__(self) -> None:
        self._by_task: dict[UUID, dict[str, Delivery]] = {}

    async def put(self, delivery: Delivery, limit: int) -> bool:
        """Store a delivery; return False if the task already has `limit` others."""
        stored = self._by_task.get(delivery.task_id, {})
        if delivery.name not in stored and len(stored) >= limit:
            return False
        self._by_task.setdefault(delivery.task_id, {})[delivery.name] = delivery
        return True

    async def replace(self, old: Delivery, new: Delivery) -> bool:
        """Store the next revision; return False if it was changed or deleted meanwhile."""
        stored = self._by_task.get(old.task_id, {})
        current = stored.get(old.name)
        if current is None or current.revision != old.revision:
            return False
        stored[new.name] = new
        return True

    async def all(self, task_id: UUID) -> Sequence[Delivery]:
        """Return the deliveries of a task, ordered by their names."""
        stored = self._by_task.get(task_id, {})
        return [stored[name] for name in sorted(stored)]

    async def delete(self, task_id: UUID, name: str) -> None:
        """Delete a delivery, if there is one."""
        stored = self._by_task.get(task_id, {})
        stored.pop(name, None)
        if not stored:
            self.drop(task_id)

    async def due(self, now: float, limit: int) -> Sequence[Delivery]:
        """Return some deliveries that may be taken over at this time."""
        found = [
            one
            for stored in self._by_task.values()
            for one in stored.values()
            if one.due is not None and one.due <= now
        ]
        return found[:limit]

    def drop(self, task_id: UUID) -> None:
        """Drop all deliveries of a task."""
        self._by_task.pop(task_id, None)


class MemoryTasks(TaskStore):
    """Tasks that end with the process; `lock` protects them and the `streams` of the log."""

    def __init__(
        self,
        streams: MemoryStore,
        lock: Lock,
        readers: Waiters,
        clock: Callable[[], float],
        lease: float,
    ) -> None:
        self.deliveries: MemoryDeliveries = MemoryDeliveries()
        self._streams = streams
        self._lock = lock
        self._readers = readers
        self._clock = clock
        self._lease = lease
        self._records: dict[UUID, TaskRecord] = {}
        self._revisions: dict[UUID, tuple[str, ...]] = {}
        self._values: dict[UUID, dict[str, bytes]] = {}
        self._waiters = TaskWaiters()

    async def begin(
        self,
        stream: NewStream,
        record: TaskRecord,
        values: Mapping[str, bytes],
        replaces: UUID | None = None,
    ) -> Begun:
        """Open the stream of a request, and store its task and the values of the task."""
        with self._lock:
            self._streams.free_request(stream, replaces)
            opened, created = self._open(stream)
            if not created:
                known = opened.stream_id
                return Begun(known, self._records.get(known), None)
            self._records[record.task_id] = record
            self._values[record.task_id] = dict(values)
            return Begun(stream.stream_id, record, opened)

    async def add_turn(self, stream: NewStream, change: TaskChange) -> StreamMeta | None:
        """Open a further stream of a task; return None if the task was changed meanwhile."""
        with self._lock:
            return self._open(stream)[0] if self._apply(change) else None

    def _open(self, stream: NewStream) -> tuple[StreamMeta, bool]:
        now = self._clock()
        opened, created = self._streams.open(stream, now, now + self._lease)
        return opened.meta(), created

    async def start(self, stream_id: UUID, epoch: int, question: bytes) -> None:
        """Replace the question of a stream before its agent starts."""
        with self._lock:
            stream = self._streams.get(stream_id)
            if stream.epoch != epoch or stream.outcome is not None:
                raise Fenced(stream_id, epoch)
            self._streams.change_question(stream, question)

    async def end(self, end: StreamEnd, change: TaskChange) -> bool:
        """End a stream of a task, and store its state."""
        check_last_entries(end.entries)
        with self._lock:
            streams, now = self._streams, self._clock()
            stream = streams.get(end.stream_id)
            if not self._fits(change):
                return False
            added = streams.append(stream, end.epoch, end.first_seq, end.entries)
            if end.text is not None:
                streams.add_turn(
                    end.text.conversation, end.stream_id, end.text.turn, end.epoch, now
                )
            self._apply(change)
            if added:
                streams.end(stream, end.outcome, now)
                self._readers.wake(end.stream_id)
        return True

    async def update(self, change: TaskChange) -> bool:
        """Store a change and its values; return False if another one was stored meanwhile."""
        with self._lock:
            return self._apply(change)

    def _fits(self, change: TaskChange) -> bool:
        stored = self._records.get(change.new.task_id)
        known = self._revisions.get(change.new.task_id, ())
        return stored is not None and is_applied(known, stored.version, change) is not False

    def _apply(self, change: TaskChange) -> bool:
        task_id, known = change.new.task_id, self._revisions.get(change.new.task_id, ())
        if not self._fits(change):
            return False
        if change.new.revision not in known:
            self._records[task_id] = change.new
            self._revisions[task_id] = (change.new.revision, *known)[:KEPT_REVISIONS]
            self._values.setdefault(task_id, {}).update(change.values)
            self._waiters.wake(task_id)
        return True

    async def get(self, task_id: UUID) -> TaskRecord | None:
        """Return a task, None if there is none."""
        return self._records.get(task_id)

    async def find(self, query: TaskQuery) -> TaskPage:
        """Return tasks, the latest change first."""
        found = [record for record in self._records.values() if query.selects(record)]
        found.sort(key=lambda record: record.position, reverse=True)
        after = query.after
        left = [record for record in found if after is None or record.position < after]
        return TaskPage(left[: query.limit], len(found))

    async def wait(self, record: TaskRecord, seconds: float) -> None:
        """Wait until a task is another one than this record, at most for so long."""
        with self._waiters.registered(record.task_id) as changed:
            stored = self._records.get(record.task_id)
            if stored is not None and stored.revision == record.revision:
                await self._waiters.wait_for(changed, seconds)

    async def value(self, task_id: UUID, name: str) -> bytes | None:
        """Return a value, None if there is none."""
        return self._values.get(task_id, {}).get(name)

    async def drop(self, ended_before: float, changed_before: float) -> None:
        """Drop the tasks that are not open and ended before a time, and all before another one."""
        for record in list(self._records.values()):
            limit = changed_before if record.open else max(ended_before, changed_before)
            if record.changed < limit:
                del self._records[record.task_id]
                self._revisions.pop(record.task_id, None)
                self._values.pop(record.task_id, None)
                self.deliveries.drop(record.task_id)
                self._waiters.wake(record.task_id)


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
