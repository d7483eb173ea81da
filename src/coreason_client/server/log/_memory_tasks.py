"""Tasks and deliveries in memory."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from uuid import UUID

from ..errors import Fenced
from ._live import TaskWaiters, Waiters
from ._memory_store import MemoryStore
from ._rules import check_last_entries
from .base import NewStream, StreamMeta
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

__all__ = ["MemoryDeliveries", "MemoryTasks"]

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
