"""Tasks on the store.

The hash of a task is authoritative. Two indexes may lag behind it: a hash for each principal with
the position, the state and the context of its tasks, and whether they can still change; and sorted
sets by time for the expiry. They are written after the task, and a task that is missing in them is
added with its next change.

A task has the slot of its first stream, so both begin and end in one script. A further stream of it
is elsewhere. It is opened first, and belongs to the task as soon as the record names it; whoever
claims one without a started agent asks the record. When it ends, it stays in the index of leases
until the state of its task is stored, so a claim finds it if the process dies in between.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from pydantic_core import from_json, to_json

from ...._valkey_address import Script
from ...errors import Fenced, LogUnavailable, UnknownStream
from .._rules import check_last_entries, digest, text
from ..base import NewStream, Opened, StreamMeta
from ..deliveries import Delivery, DeliveryStore
from ..remote._owned import wait_for_task
from ..tasks import (
    KEPT_REVISIONS,
    Begun,
    StreamEnd,
    TaskChange,
    TaskPage,
    TaskQuery,
    TaskRecord,
    TaskStore,
)
from . import _scripts as scripts
from ._entries import end_arguments, handle_end_reply, move_to_ended
from ._keys import KeyNames, parse_stream_id
from ._opening import NewTask, delete_unused
from ._resp import Argument
from ._session import Session
from ._task_scripts import DROP_TASK, END, START, TASKS, UPDATE_TASK

# Deliveries on the store.
#
# The hash of a task's deliveries is authoritative. An index by time may differ from it, always in
# the direction that is safe: a delivery is in the index before it is in the hash, and leaves the
# index only if nobody has changed its time there meanwhile.

# Seconds from now at which a delivery is looked for whose process ended while it stored it.
_UNFINISHED = 30.0
_DELIVERY_FIELDS = ("revision", "due", "data", "progress")

# KEYS deliveries. ARGV name, limit, and the values of the fields. The name ends each field, because
# the others have no space. A delivery has four fields.
_PUT = Script("""
if not redis.call('HGET', KEYS[1], 'revision ' .. ARGV[1])
  and #redis.call('HGETALL', KEYS[1]) >= 8 * tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'revision ' .. ARGV[1], ARGV[3], 'due ' .. ARGV[1], ARGV[4],
  'data ' .. ARGV[1], ARGV[5], 'progress ' .. ARGV[1], ARGV[6])
return 1
""")

# KEYS deliveries. ARGV name, revision before, and the values of the fields. A change that is
# repeated because its reply was lost finds its own revision.
_REPLACE = Script("""
local revision = redis.call('HGET', KEYS[1], 'revision ' .. ARGV[1])
if revision == ARGV[3] then return 1 end
if revision ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'revision ' .. ARGV[1], ARGV[3], 'due ' .. ARGV[1], ARGV[4],
  'data ' .. ARGV[1], ARGV[5], 'progress ' .. ARGV[1], ARGV[6])
return 1
""")

# KEYS deliveries. The reply is a list of fields and values, in turn.
_ALL = Script("return redis.call('HGETALL', KEYS[1])")

# KEYS index. ARGV member, the time that it had, and its new time, empty if it leaves the index.
_MOVE = Script("""
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], ARGV[2])) do
  if member == ARGV[1] then
    if ARGV[3] == '' then return redis.call('ZREM', KEYS[1], member) end
    redis.call('ZADD', KEYS[1], ARGV[3], member)
    return 1
  end
end
return 0
""")

# KEYS index. ARGV time, limit. The reply is a list of members and times, in turn.
_DUE = Script("""
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
""")


class ValkeyDeliveries(DeliveryStore):
    """Deliveries that all replicas share; `session` returns the session of this event loop."""

    def __init__(self, session: Callable[[], Session], keys: KeyNames) -> None:
        self._session = session
        self._keys = keys

    async def put(self, delivery: Delivery, limit: int) -> bool:
        """Store a delivery; return False if the task already has `limit` others."""
        session = self._session()
        await self._schedule(delivery, session.now() + _UNFINISHED)
        key, name = self._keys.deliveries(delivery.task_id), text(delivery.name)
        stored = await session.store.confirmed_script(
            _PUT, [key], name, limit, *_delivery_values(delivery)
        )
        if stored and delivery.due is not None:
            await self._schedule(delivery, delivery.due)
        return bool(stored)

    async def replace(self, old: Delivery, new: Delivery) -> bool:
        """Store the next revision; return False if it was changed or deleted meanwhile."""
        key, name = self._keys.deliveries(old.task_id), text(old.name)
        stored = await self._session().store.confirmed_script(
            _REPLACE, [key], name, old.revision, *_delivery_values(new)
        )
        if not stored:
            return False
        if new.due is not None:
            await self._schedule(new, new.due)
        elif old.due is not None:
            await self._move(self._keys.delivery_index(old.task_id), _member(old), old.due, None)
        return True

    async def all(self, task_id: UUID) -> Sequence[Delivery]:
        """Return the deliveries of a task, ordered by their names."""
        key = self._keys.deliveries(task_id)
        flat: list[bytes] = await self._session().store.query(_ALL, [key])
        fields = _pairs(flat)
        names = sorted(name for kind, name in fields if kind == "revision")
        return [
            _delivery(task_id, name, [fields[kind, name] for kind in _DELIVERY_FIELDS])
            for name in names
        ]

    async def delete(self, task_id: UUID, name: str) -> None:
        """Delete a delivery; its member of the index goes when it is due."""
        fields = [f"{kind} ".encode() + text(name) for kind in _DELIVERY_FIELDS]
        await self._session().store.command("HDEL", self._keys.deliveries(task_id), *fields)

    async def due(self, now: float, limit: int) -> Sequence[Delivery]:
        """Return some deliveries that may be taken over at this time."""
        session = self._session()
        replies: list[list[bytes]] = await asyncio.gather(
            *(
                session.store.query(_DUE, [key], repr(now), limit)
                for key in self._keys.due_deliveries
            )
        )
        found = await asyncio.gather(
            *(
                self._if_due(member, float(score), now)
                for reply in replies
                for member, score in zip(reply[::2], reply[1::2], strict=True)
            )
        )
        return [one for one in found if one is not None][:limit]

    async def _if_due(self, member: bytes, score: float, now: float) -> Delivery | None:
        """Return the delivery of an index member if it is due, otherwise correct the index."""
        task_id, name = parse_stream_id(member[:32]), member[33:].decode("utf-8", "surrogatepass")
        fields = [f"{kind} ".encode() + text(name) for kind in _DELIVERY_FIELDS]
        values: list[bytes | None] = await self._session().store.command(
            "HMGET", self._keys.deliveries(task_id), *fields
        )
        stored = [value for value in values if value is not None]
        delivery = (
            _delivery(task_id, name, stored) if len(stored) == len(_DELIVERY_FIELDS) else None
        )
        if delivery is not None and delivery.due is not None and delivery.due <= now:
            return delivery
        due = None if delivery is None else delivery.due
        await self._move(self._keys.delivery_index(task_id), member, score, due)
        return None

    async def _schedule(self, delivery: Delivery, due: float) -> None:
        key = self._keys.delivery_index(delivery.task_id)
        await self._session().store.command("ZADD", key, repr(due), _member(delivery))

    async def _move(self, key: str, member: bytes, old: float, new: float | None) -> None:
        time = "" if new is None else repr(new)
        await self._session().store.script(_MOVE, [key], member, repr(old), time)


def _member(delivery: Delivery) -> bytes:
    return delivery.task_id.hex.encode() + b" " + text(delivery.name)


def _delivery_values(delivery: Delivery) -> tuple[str | bytes, ...]:
    due = "" if delivery.due is None else repr(delivery.due)
    return (delivery.revision, due, delivery.data, delivery.progress)


def _delivery(task_id: UUID, name: str, values: Sequence[bytes]) -> Delivery:
    revision, due, data, progress = values
    moment = float(due) if due else None
    return Delivery(task_id, name, data, progress, moment, revision.decode("ascii"))


def _pairs(flat: Sequence[bytes]) -> dict[tuple[str, str], bytes]:
    found: dict[tuple[str, str], bytes] = {}
    for field, value in zip(flat[::2], flat[1::2], strict=True):
        kind, _, name = field.decode("utf-8", "surrogatepass").partition(" ")
        found[kind, name] = value
    return found


_AT_ONCE = 100
_MOST_READ = 1_000  # tasks of one principal that can still change, for one list
_FIELDS = ("principal", "context", "state", "changed", "data", "open", "version", "revisions")


class ValkeyTasks(TaskStore):
    """Tasks that all replicas share; `session` returns the session of this event loop."""

    def __init__(
        self,
        session: Callable[[], Session],
        keys: KeyNames,
        open_stream: Callable[[NewStream, NewTask], Awaitable[Opened]],
    ) -> None:
        self.deliveries = ValkeyDeliveries(session, keys)
        self._session = session
        self._keys = keys
        self._open = open_stream

    async def begin(
        self,
        stream: NewStream,
        record: TaskRecord,
        values: Mapping[str, bytes],
        replaces: UUID | None = None,
    ) -> Begun:
        """Open the stream of a request, and store its task and the values of the task."""
        fields = {**_fields(record), "index": _owner(record.principal)}
        task = NewTask(record.task_id, _flat(fields), _values(values), replaces)
        opened = await self._open(stream, task)
        if not opened.created:
            known = opened.meta.stream_id
            return Begun(known, await self.get(known), None)
        await self._index(record)
        return Begun(stream.stream_id, record, opened.meta)

    async def add_turn(self, stream: NewStream, change: TaskChange) -> StreamMeta | None:
        """Open a further stream of a task; return None if the task was changed meanwhile."""
        opened = await self._open(stream, NewTask(change.new.task_id))
        if await self.update(change):
            return opened.meta
        await delete_unused(self._session(), self._keys, stream)
        return None

    async def start(self, stream_id: UUID, epoch: int, question: bytes) -> None:
        """Replace the question of a stream before its agent starts."""
        keys = self._keys.meta(stream_id), self._keys.question(stream_id)
        reply = await self._session().store.confirmed_script(START, keys, epoch, question)
        if reply == b"unknown":
            raise UnknownStream(stream_id)
        if reply == b"fenced":
            raise Fenced(stream_id, epoch)

    async def end(self, end: StreamEnd, change: TaskChange) -> bool:
        """End a stream of a task, and store its state."""
        check_last_entries(end.entries)
        session, keys, (stream_id, epoch, first_seq, entries) = self._session(), self._keys, end[:4]
        names, arguments = end_arguments(session, keys, *end[:5])
        together = stream_id == change.new.task_id
        script = scripts.APPEND
        if together:
            script = END
            names += [keys.task(stream_id), keys.task_values(stream_id)]
            arguments = (*self._change(change), *arguments)
        line: bytes = await session.store.confirmed_script(script, names, *arguments)
        if line == b"late":
            return False
        ended = handle_end_reply(session, stream_id, epoch, first_seq, entries, line)
        # The stream has ended even if this fails: claims store the state and correct the indexes.
        with suppress(LogUnavailable):
            if together:
                await self._index(change.new)
            elif not await self.update(change):
                return False
            await move_to_ended(session, stream_id, ended)
        return True

    async def update(self, change: TaskChange) -> bool:
        """Store a change and its values; return False if another one was stored meanwhile."""
        task_id = change.new.task_id
        keys = self._keys.task(task_id), self._keys.task_values(task_id)
        state = await self._session().store.confirmed_script(
            UPDATE_TASK, keys, *self._change(change)
        )
        if state == b"late":
            return False
        await self._index(change.new)
        return True

    def _change(self, change: TaskChange) -> tuple[Argument, ...]:
        """Return the arguments of `change` in a script, with their count."""
        old, new = change.old, change.new
        fields = _flat(_fields(new))
        mine = (
            *(old.revision, str(old.version), new.revision),
            *(KEPT_REVISIONS * (len(new.revision) + 1), self._keys.channel(new.task_id)),
            *(len(fields), *fields, *_values(change.values)),
        )
        return (len(mine), *mine)

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

    async def wait(self, record: TaskRecord, seconds: float) -> None:
        """Wait until a task is another one than this record, at most for so long."""
        session = self._session()
        subscribe = session.subscription.subscribe
        await wait_for_task(session, subscribe, self.get, record, seconds)

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
    return dict(zip(_FIELDS, values, strict=False))


def _flat(fields: Mapping[str, str | bytes]) -> list[str | bytes]:
    return [part for pair in fields.items() for part in pair]


def _values(values: Mapping[str, bytes]) -> list[str | bytes]:
    return _flat({f"v:{name}": value for name, value in values.items()})


def _record(task_id: UUID, found: list[bytes | None]) -> TaskRecord | None:
    if found[0] is None:
        return None
    principal, context, state, changed, data, open_, *versions = (part or b"" for part in found)
    version, revisions = versions
    return TaskRecord(
        task_id,
        principal.decode("utf-8", "surrogatepass"),
        context.decode("utf-8", "surrogatepass"),
        state.decode("utf-8", "surrogatepass"),
        float(changed),
        data,
        open_ == b"1",
        int(version),
        revisions.partition(b" ")[0].decode("ascii"),
    )


def _entry(principal: str, member: bytes, entry: bytes) -> TaskRecord:
    """Return a record with what the index knows."""
    changed, state, context_id, is_open = from_json(entry)
    task_id = parse_stream_id(member)
    return TaskRecord(task_id, principal, context_id, state, changed, open=is_open)
