"""Tasks on the store.

The hash of a task is authoritative. Two indexes may lag behind it: a hash for each principal with
the position, the state and the context of its tasks, and whether they can still change; and sorted
sets by time for the expiry. They are written after the task, and a task that is missing in them is
added with its next change.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from pydantic_core import from_json, to_json

from .._waiters import Waiter
from ..tasks import TaskPage, TaskQuery, TaskRecord, TaskStore
from ._delivery_store import ValkeyDeliveries
from ._keys import KeyNames, digest, parse_stream_id
from ._meta import text
from ._session import Session
from ._task_scripts import CREATE_TASK, DROP_TASK, PUT_VALUE, TASKS, UPDATE_TASK

__all__ = ["ValkeyTasks"]

_POLL = 5.0  # seconds between two looks at a task, in case that an announcement was lost
_AT_ONCE = 100
_MOST_READ = 1_000  # tasks of one principal that can still change, for one list
_FIELDS = ("principal", "context", "state", "changed", "data", "open", "version")


class _TaskWaiter:
    """Waits on the channel of a task, which is that of its first stream."""

    position = sys.maxsize  # it reads no entries

    def __init__(self) -> None:
        self.waiter = Waiter()


@contextmanager
def _waiting(session: Session, task_id: UUID) -> Iterator[Waiter]:
    reader = _TaskWaiter()
    session.waiters.add(task_id, reader)
    session.subscription.subscribe(task_id)
    try:
        yield reader.waiter
    finally:
        session.waiters.remove(task_id, reader)
        reader.waiter.close()


class ValkeyTasks(TaskStore):
    """Tasks that all replicas share; `session` returns the session of this event loop."""

    def __init__(self, session: Callable[[], Session], keys: KeyNames) -> None:
        self.deliveries = ValkeyDeliveries(session, keys)
        self._session = session
        self._keys = keys

    async def create(self, record: TaskRecord) -> bool:
        """Store a new task; return False if there is one with this id."""
        fields = {**_fields(record), "index": _owner(record.principal)}
        pairs = [part for pair in fields.items() for part in pair]
        key = self._keys.task(record.task_id)
        created = await self._session().store.script(CREATE_TASK, [key], *pairs)
        if created:
            await self._index(record)
        return bool(created)

    async def update(self, record: TaskRecord) -> bool:
        """Store the next version of a task; return False if another one was stored meanwhile."""
        pairs = [part for pair in _fields(record).items() for part in pair]
        key = self._keys.task(record.task_id)
        stored = await self._session().store.script(
            UPDATE_TASK,
            [key],
            str(record.version - 1),
            self._keys.channel(record.task_id),
            *pairs,
        )
        if stored:
            await self._index(record)
        return bool(stored)

    async def get(self, task_id: UUID) -> TaskRecord | None:
        """Return a task, None if there is none."""
        found: list[bytes | None] = await self._session().store.command(
            "HMGET", self._keys.task(task_id), *_FIELDS
        )
        return _record(task_id, found)

    async def find(self, query: TaskQuery) -> TaskPage:
        """Return tasks, the latest change first."""
        known = await self._known(query)
        found = sorted((one.position for one in known if query.selects(one)), reverse=True)
        left = [place for place in found if query.after is None or place < query.after]
        records: list[TaskRecord] = []
        gone = 0  # those that were dropped or changed meanwhile, and are replaced by the next ones
        while places := left[len(records) + gone : query.limit + gone]:
            stored = await asyncio.gather(*(self.get(place.task_id) for place in places))
            current = [one for one in stored if one is not None and query.selects(one)]
            records += current
            gone += len(places) - len(current)
        return TaskPage(records, len(found) - gone)

    async def _known(self, query: TaskQuery) -> Iterable[TaskRecord]:
        """Return what the index knows about the tasks of a principal.

        It may lag behind a task that can still change, so those are read. A change that a client
        has seen is then in its list, and the position of a task is the one of its record.
        """
        key = self._keys.of_principal(_owner(query.principal), "tasks")
        flat: list[bytes] = await self._session().store.query(TASKS, [key])
        pairs = zip(flat[::2], flat[1::2], strict=True)
        known = {one.task_id: one for one in (_entry(query.principal, *pair) for pair in pairs)}
        unsure = [one for one in known.values() if one.open and query.may_select(one)]
        unsure.sort(key=lambda one: one.position, reverse=True)
        read = await asyncio.gather(*(self.get(one.task_id) for one in unsure[:_MOST_READ]))
        return (known | {one.task_id: one for one in read if one is not None}).values()

    async def wait(self, task_id: UUID, version: int, seconds: float) -> None:
        """Wait until a task has another version than this one, at most for so long."""
        session = self._session()
        until, wake_all_count = session.loop.time() + seconds, session.waiters.wake_all_count
        with _waiting(session, task_id) as waiter:
            while (left := until - session.loop.time()) > 0:
                waiter.clear()  # before the look, so that a change after it is noticed
                record = await self.get(task_id)
                if record is None or record.version != version:
                    return
                await waiter.wait(min(_POLL, left))
                if session.waiters.wake_all_count != wake_all_count:
                    return

    async def put_value(self, task_id: UUID, name: str, value: bytes, epoch: int = 1) -> None:
        """Store a value beside a task; one of a later epoch stays as it is."""
        key = self._keys.task_values(task_id)
        await self._session().store.script(PUT_VALUE, [key], name, value, str(epoch))

    async def value(self, task_id: UUID, name: str) -> bytes | None:
        """Return a value, None if there is none."""
        key = self._keys.task_values(task_id)
        found: bytes | None = await self._session().store.command("HGET", key, f"v:{name}")
        return found

    async def drop(self, ended_before: float, changed_before: float) -> None:
        """Drop the tasks that are not open and ended before a time, and all before another one."""
        session = self._session()
        limit = max(ended_before, changed_before)
        for key in self._keys.tasks:
            start = 0
            while members := await session.store.command(
                "ZRANGEBYSCORE", key, "-inf", f"({limit!r}", "LIMIT", start, _AT_ONCE
            ):
                kept = await asyncio.gather(
                    *(self._drop(key, member, ended_before, changed_before) for member in members)
                )
                start += sum(kept)  # they are still there

    async def _drop(
        self, key: str, member: bytes, ended_before: float, changed_before: float
    ) -> bool:
        """Drop a task if it is old enough; return True if it stays."""
        task_id, session, keys = parse_stream_id(member), self._session(), self._keys
        state, value = await session.store.script(
            DROP_TASK,
            [keys.task(task_id), keys.task_values(task_id), keys.deliveries(task_id)],
            *(repr(ended_before), repr(changed_before)),
        )
        if state == b"kept":
            return True
        if value:
            index = keys.of_principal(value.decode("ascii"), "tasks")
            await session.store.command("HDEL", index, task_id.hex)
        await session.store.command("ZREM", key, task_id.hex)
        return False

    async def _index(self, record: TaskRecord) -> None:
        session, task_id = self._session(), record.task_id
        entry = to_json([record.changed, record.state, record.context_id, record.open])
        await asyncio.gather(
            session.store.command(
                "HSET",
                self._keys.of_principal(_owner(record.principal), "tasks"),
                task_id.hex,
                entry,
            ),
            session.store.command(
                "ZADD", self._keys.task_index(task_id), repr(record.changed), task_id.hex
            ),
        )


def _owner(principal: str) -> str:
    return digest(principal, b"tasks")


def _fields(record: TaskRecord) -> dict[str, str | bytes]:
    values = (
        text(record.principal),
        text(record.context_id),
        text(record.state),
        repr(record.changed),
        record.data,
        str(int(record.open)),
        str(record.version),
    )
    return dict(zip(_FIELDS, values, strict=True))


def _record(task_id: UUID, found: list[bytes | None]) -> TaskRecord | None:
    if found[0] is None:
        return None
    principal, context, state, changed, data, open_, version = (part or b"" for part in found)
    return TaskRecord(
        task_id,
        principal.decode("utf-8", "surrogatepass"),
        context.decode("utf-8", "surrogatepass"),
        state.decode("utf-8", "surrogatepass"),
        float(changed),
        data,
        open_ == b"1",
        int(version),
    )


def _entry(principal: str, member: bytes, entry: bytes) -> TaskRecord:
    """Return a record with what the index knows."""
    changed, state, context_id, is_open = from_json(entry)
    task_id = parse_stream_id(member)
    return TaskRecord(task_id, principal, context_id, state, changed, open=is_open)
