"""Tasks, deliveries and the limits of principals in the database."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from .._rules import check_last_entries, digest, text
from .._staging import pack_runs
from ..base import MAX_TURN_BYTES, MAX_TURNS, NewStream, StreamMeta
from ..deliveries import Delivery, DeliveryStore
from ..quotas import QuotaStore, Reservation
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
from ._session import (
    DatabaseSession,
    conversation_digest,
    handle_opening,
    opening_arguments,
    owner_digest,
    parse_text,
    raise_state,
)

_DROPPED_AT_ONCE = 100


class PostgresDeliveries(DeliveryStore):
    """Deliveries that all replicas share; `session` returns the session of this event loop."""

    def __init__(self, session: Callable[[], DatabaseSession]) -> None:
        self._session = session

    async def put(self, delivery: Delivery, limit: int) -> bool:
        """Store a delivery; return False if the task already has `limit` others."""
        ((stored,),) = await self._session().store.call(
            "put_delivery",
            *(delivery.task_id, _delivery_key(delivery.name), text(delivery.name)),
            *(delivery.data, delivery.progress, delivery.due, delivery.revision, limit),
        )
        return bool(stored)

    async def replace(self, old: Delivery, new: Delivery) -> bool:
        """Store the next revision; return False if it was changed or deleted meanwhile."""
        ((stored,),) = await self._session().store.call(
            "replace_delivery",
            *(old.task_id, _delivery_key(old.name), new.data, new.progress, new.due),
            *(new.revision, old.revision),
        )
        return bool(stored)

    async def all(self, task_id: UUID) -> Sequence[Delivery]:
        """Return the deliveries of a task, ordered by their names."""
        rows = await self._session().store.read("get_deliveries", task_id)
        return sorted(map(_delivery, rows), key=lambda delivery: delivery.name)

    async def delete(self, task_id: UUID, name: str) -> None:
        """Delete a delivery, if there is one."""
        await self._session().store.call("delete_delivery", task_id, _delivery_key(name))

    async def due(self, now: float, limit: int) -> Sequence[Delivery]:
        """Return some deliveries that may be taken over at this time."""
        rows = await self._session().store.read("due_deliveries", now, limit)
        return list(map(_delivery, rows))


def _delivery_key(name: str) -> bytes:
    return bytes.fromhex(digest(name, b""))


def _delivery(row: Any) -> Delivery:
    task_id, _, name, data, progress, due, revision = row
    return Delivery(task_id, parse_text(name), data, progress, due, revision)


class PostgresTasks(TaskStore):
    """Tasks that all replicas share; `session` returns the session of this event loop."""

    def __init__(self, session: Callable[[], DatabaseSession], lease: float) -> None:
        self.deliveries = PostgresDeliveries(session)
        self._session = session
        self._lease = lease

    async def begin(
        self,
        stream: NewStream,
        record: TaskRecord,
        values: Mapping[str, bytes],
        replaces: UUID | None = None,
    ) -> Begun:
        """Open the stream of a request, and store its task and the values of the task."""
        session = self._session()
        until = session.owned.now() + self._lease
        arguments = opening_arguments(session, self._lease, stream, replaces)
        (row,) = await session.store.call(
            "begin_task",
            *arguments,
            *(record.task_id, owner_digest(record.principal), text(record.context_id)),
            *(text(record.state), record.changed, record.data, record.open),
            *(record.version, record.revision, *_values(values)),
        )
        opened = handle_opening(session, stream, arguments, row, until)
        if opened.created:
            return Begun(stream.stream_id, record, opened.meta)
        known = opened.meta.stream_id
        return Begun(known, await self.get(known), None)

    async def add_turn(self, stream: NewStream, change: TaskChange) -> StreamMeta | None:
        """Open a further stream of a task; return None if the task was changed meanwhile."""
        session = self._session()
        until = session.owned.now() + self._lease
        arguments = opening_arguments(session, self._lease, stream)
        rows = await session.store.call("add_stream", *arguments, *_change(change))
        if not rows:
            return None
        session.announce(change.new.task_id)
        return handle_opening(session, stream, arguments, rows[0], until).meta

    async def start(self, stream_id: UUID, epoch: int, question: bytes) -> None:
        """Replace the question of a stream before its agent starts."""
        ((state,),) = await self._session().store.call(
            "change_question", stream_id, epoch, question
        )
        raise_state(state, stream_id, epoch)

    async def end(self, end: StreamEnd, change: TaskChange) -> bool:
        """End a stream of a task, and store its state."""
        check_last_entries(end.entries)
        session, (stream_id, epoch, first_seq, entries) = self._session(), end[:4]
        runs = [run for _, run in pack_runs(first_seq, entries)]
        key, turn = (None, None) if end.text is None else end.text
        (row,) = await session.store.call(
            "end_task",
            *(session.store.now(), stream_id, epoch, first_seq, len(entries)),
            *(text(end.outcome), runs, None if key is None else conversation_digest(key), turn),
            *(MAX_TURNS, MAX_TURN_BYTES, *_change(change)),
        )
        if row["state"] == "late":
            return False
        session.handle_append(stream_id, epoch, first_seq, entries, row, ended=True)
        session.announce(change.new.task_id)
        return True

    async def update(self, change: TaskChange) -> bool:
        """Store a change and its values; return False if another one was stored meanwhile."""
        session = self._session()
        ((stored,),) = await session.store.call("update_task", *_change(change))
        if stored:
            session.waiters.wake(change.new.task_id)
            session.announce(change.new.task_id)
        return bool(stored)

    async def get(self, task_id: UUID) -> TaskRecord | None:
        """Return a task, None if there is none."""
        rows = await self._session().store.read("get_task", task_id)
        return _record(rows[0]) if rows else None

    async def find(self, query: TaskQuery) -> TaskPage:
        """Return tasks, the latest change first."""
        store = self._session().store
        context, state, after = query.context_id, query.state, query.after
        filters = (
            owner_digest(query.principal),
            None if context is None else text(context),
            None if state is None else text(state),
            query.changed_since,
        )
        ((total,),) = await store.read("count_tasks", *filters)
        position = (None, None) if after is None else after
        rows = await store.read("find_tasks", *filters, *position, query.limit)
        return TaskPage(list(map(_record, rows)), total)

    async def wait(self, record: TaskRecord, seconds: float) -> None:
        """Wait until a task is another one than this record, at most for so long."""
        session = self._session()
        assert session.announcements is not None  # noqa: S101 - it was started
        subscribe = session.announcements.subscribe
        await wait_for_task(session, subscribe, self.get, record, seconds)

    async def value(self, task_id: UUID, name: str) -> bytes | None:
        """Return a value, None if there is none."""
        rows: list[tuple[bytes]] = await self._session().store.read(
            "get_value", task_id, text(name)
        )
        return rows[0][0] if rows else None

    async def drop(self, ended_before: float, changed_before: float) -> None:
        """Drop the tasks that are not open and ended before a time, and all before another one."""
        session = self._session()
        limits = ((False, max(ended_before, changed_before)), (True, changed_before))
        for open_, before in limits:
            while rows := await session.store.call("drop_tasks", open_, before, _DROPPED_AT_ONCE):
                for (task_id,) in rows:
                    session.waiters.wake(task_id)
                    session.announce(task_id)


def _change(change: TaskChange) -> tuple[Any, ...]:
    """Return the arguments of a function that stores a change."""
    old, new = change.old, change.new
    return (
        *(new.task_id, old.version, old.revision, new.revision),
        *(text(new.state), new.changed, new.data, new.open, new.version),
        *(KEPT_REVISIONS, *_values(change.values)),
    )


def _values(values: Mapping[str, bytes]) -> tuple[list[bytes], list[bytes]]:
    return [text(name) for name in values], list(values.values())


def _record(row: Any) -> TaskRecord:
    return TaskRecord(
        task_id=row["task_id"],
        principal=parse_text(row["principal"]),
        context_id=parse_text(row["context_id"]),
        state=parse_text(row["state"]),
        changed=row["changed"],
        data=row["data"],
        open=row["open"],
        version=row["version"],
        revision=row["revisions"][0],
    )


# The limits of principals.

_LEASES: Final = 3  # of a stream, for which a reservation holds
_MINUTE: Final = 60_000_000  # microseconds
_NANOSECONDS: Final = 1_000  # in a microsecond


class PostgresQuotas(QuotaStore):
    """Limits that all replicas share; `session` returns the session of this event loop."""

    def __init__(self, session: Callable[[], DatabaseSession], lease: float) -> None:
        self.lease = _LEASES * lease
        self._session = session

    async def reserve(
        self, principal: str, owner: str, streams: Reservation, readers: Reservation
    ) -> tuple[int, int]:
        """Replace what an owner has reserved; return how many of the wanted units were granted."""
        store = self._session().store
        held, wanted, limits = zip(streams, readers, strict=True)
        (((of_streams, of_readers),),) = await store.call(
            "reserve",
            *(store.now(), self.lease, owner_digest(principal), owner, held, wanted, limits),
        )
        return of_streams, of_readers

    async def take_token(self, principal: str, per_minute: int) -> int:
        """Take a token and return 0, or return the nanoseconds until one is available."""
        return await self._change_bucket(principal, per_minute, 1) * _NANOSECONDS

    async def give_token_back(self, principal: str, per_minute: int) -> None:
        """Give back the token of a request that does not count."""
        await self._change_bucket(principal, per_minute, -1)

    async def _change_bucket(self, principal: str, per_minute: int, count: int) -> int:
        store = self._session().store
        span = max(1, _MINUTE // per_minute)
        ((wait,),) = await store.call(
            "change_bucket", store.now(), owner_digest(principal), span, per_minute, count
        )
        return int(wait)
