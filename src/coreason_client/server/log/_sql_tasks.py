"""Tasks and deliveries in the SQLite file of a log."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from . import _sql
from ._live import TaskWaiters
from ._recent_entries import LiveEntries
from ._rules import check_last_entries
from ._sql import LogConnection
from ._worker import SharedWorker
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

# Deliveries in the SQLite file of a log.

_DELIVERY_COLUMNS = "task_id, name, data, progress, due, revision"


class SQLiteDeliveries(DeliveryStore):
    """Deliveries that outlive the process; `worker` runs the statements."""

    def __init__(self, worker: SharedWorker[LogConnection]) -> None:
        self._worker = worker

    async def put(self, delivery: Delivery, limit: int) -> bool:
        """Store a delivery; return False if the task already has `limit` others."""
        return await self._worker.submit(lambda db: _put(db, delivery, limit))

    async def replace(self, old: Delivery, new: Delivery) -> bool:
        """Store the next revision; return False if it was changed or deleted meanwhile."""

        def run(db: LogConnection) -> bool:
            changed = db.execute(
                "UPDATE deliveries SET data = ?, progress = ?, due = ?, revision = ?"
                " WHERE task_id = ? AND name = ? AND revision = ?",
                (
                    *(new.data, new.progress, new.due, new.revision),
                    *(old.task_id.bytes, _name(old.name), old.revision),
                ),
            )
            return changed.rowcount == 1

        return await self._worker.submit(run)

    async def all(self, task_id: UUID) -> Sequence[Delivery]:
        """Return the deliveries of a task, ordered by their names."""
        return await self._worker.submit(
            lambda db: _select(db, "task_id = ? ORDER BY name", task_id.bytes)
        )

    async def delete(self, task_id: UUID, name: str) -> None:
        """Delete a delivery, if there is one."""
        await self._worker.submit(
            lambda db: db.execute(
                "DELETE FROM deliveries WHERE task_id = ? AND name = ?",
                (task_id.bytes, _name(name)),
            )
        )

    async def due(self, now: float, limit: int) -> Sequence[Delivery]:
        """Return some deliveries that may be taken over at this time."""
        return await self._worker.submit(
            lambda db: _select(db, "due <= ? ORDER BY due LIMIT ?", now, limit)
        )


def _put(db: sqlite3.Connection, delivery: Delivery, limit: int) -> bool:
    (others,) = db.execute(
        "SELECT COUNT(*) FROM deliveries WHERE task_id = ? AND name != ?",
        (delivery.task_id.bytes, _name(delivery.name)),
    ).fetchone()
    if others >= limit:
        return False
    db.execute(
        f"INSERT OR REPLACE INTO deliveries ({_DELIVERY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            delivery.task_id.bytes,
            _name(delivery.name),
            delivery.data,
            delivery.progress,
            delivery.due,
            delivery.revision,
        ),
    )
    return True


def _select(db: sqlite3.Connection, where: str, *values: Any) -> list[Delivery]:
    rows = db.execute(f"SELECT {_DELIVERY_COLUMNS} FROM deliveries WHERE {where}", values)  # noqa: S608
    return [
        Delivery(UUID(bytes=task_id), name.decode("utf-8", "surrogatepass"), *rest)
        for task_id, name, *rest in rows
    ]


def _name(name: str) -> bytes:
    """Return a name as it is stored; as text, SQLite would refuse some of them."""
    return name.encode("utf-8", "surrogatepass")


def drop_deliveries(db: sqlite3.Connection, task_id: bytes) -> None:
    """Drop all deliveries of a task."""
    db.execute("DELETE FROM deliveries WHERE task_id = ?", (task_id,))


_COLUMNS = "task_id, principal, context_id, state, changed, data, open, version, revisions"
_DROPPED_AT_ONCE = 50


class SQLiteTasks(TaskStore):
    """Tasks that outlive the process; `worker` runs the statements."""

    def __init__(
        self,
        worker: SharedWorker[LogConnection],
        live: LiveEntries,
        clock: Callable[[], float],
        lease: float,
    ) -> None:
        self.deliveries = SQLiteDeliveries(worker)
        self._worker = worker
        self._live = live
        self._clock = clock
        self._lease = lease
        self._waiters = TaskWaiters()

    async def begin(
        self,
        stream: NewStream,
        record: TaskRecord,
        values: Mapping[str, bytes],
        replaces: UUID | None = None,
    ) -> Begun:
        """Open the stream of a request, and store its task and the values of the task."""

        def run(db: LogConnection) -> Begun:
            now = self._clock()
            opened = _sql.open_stream(db, stream, now, now + self._lease, replaces)
            if not opened.created:
                known = opened.meta.stream_id
                return Begun(known, _load(db, known), None)
            marks = ", ".join("?" * 9)
            db.execute(
                f"INSERT INTO tasks ({_COLUMNS}) VALUES ({marks})",  # noqa: S608
                _row(record),
            )
            _put_values(db, record.task_id, values)
            return Begun(stream.stream_id, record, opened.meta)

        def after(begun: Begun) -> None:
            if begun.opened is not None:
                self._live.add(stream.stream_id, 1, 1, [], ended=False)

        return await self._worker.submit(run, after)

    async def add_turn(self, stream: NewStream, change: TaskChange) -> StreamMeta | None:
        """Open a further stream of a task; return None if the task was changed meanwhile."""

        def run(db: LogConnection) -> StreamMeta | None:
            if not _apply(db, change):
                return None
            now = self._clock()
            return _sql.open_stream(db, stream, now, now + self._lease, None).meta

        def after(opened: StreamMeta | None) -> None:
            if opened is not None:
                self._live.add(stream.stream_id, 1, 1, [], ended=False)
                self._waiters.wake(change.new.task_id)

        return await self._worker.submit(run, after)

    async def start(self, stream_id: UUID, epoch: int, question: bytes) -> None:
        """Replace the question of a stream before its agent starts."""
        await self._worker.submit(lambda db: _sql.change_question(db, stream_id, epoch, question))

    async def end(self, end: StreamEnd, change: TaskChange) -> bool:
        """End a stream of a task, and store its state."""
        check_last_entries(end.entries)
        stream_id, first_seq, entries = end.stream_id, end.first_seq, end.entries
        added = False

        def run(db: LogConnection) -> bool:
            nonlocal added
            applied = _is_applied(db, change)
            if applied is False:
                return False
            now = self._clock()
            added, _ = _sql.append(db, stream_id, end.epoch, first_seq, entries)
            if added:
                last_seq = first_seq + len(entries) - 1
                _sql.end_stream(db, stream_id, last_seq, end.outcome, now)
            if end.text is not None:
                conversation, turn = end.text
                _sql.add_turn(db, conversation, stream_id, turn, end.epoch, now)
            if not applied:
                _store(db, change)
            return True

        def after(ended: bool) -> None:
            if added:
                self._live.add(stream_id, end.epoch, first_seq, entries, ended=True)
            if ended:
                self._waiters.wake(change.new.task_id)

        return await self._worker.submit(run, after)

    async def update(self, change: TaskChange) -> bool:
        """Store a change and its values; return False if another one was stored meanwhile."""

        def after(updated: bool) -> None:
            if updated:
                self._waiters.wake(change.new.task_id)

        return await self._worker.submit(lambda db: _apply(db, change), after)

    async def get(self, task_id: UUID) -> TaskRecord | None:
        """Return a task, None if there is none."""
        return await self._worker.submit(lambda db: _load(db, task_id))

    async def find(self, query: TaskQuery) -> TaskPage:
        """Return tasks, the latest change first."""
        return await self._worker.submit(lambda db: _find(db, query))

    async def wait(self, record: TaskRecord, seconds: float) -> None:
        """Wait until a task is another one than this record, at most for so long."""
        with self._waiters.registered(record.task_id) as changed:
            stored = await self.get(record.task_id)
            if stored is not None and stored.revision == record.revision:
                await self._waiters.wait_for(changed, seconds)

    async def value(self, task_id: UUID, name: str) -> bytes | None:
        """Return a value, None if there is none."""

        def run(db: LogConnection) -> bytes | None:
            row = db.execute(
                "SELECT value FROM task_values WHERE task_id = ? AND name = ?",
                (task_id.bytes, name),
            ).fetchone()
            return None if row is None else row[0]

        return await self._worker.submit(run)

    async def drop(self, ended_before: float, changed_before: float) -> None:
        """Drop the tasks that are not open and ended before a time, and all before another one."""
        for open_, limit in ((0, max(ended_before, changed_before)), (1, changed_before)):
            while dropped := await self._drop_some(open_, limit):
                for task_id in dropped:
                    self._waiters.wake(task_id)

    async def _drop_some(self, open_: int, limit: float) -> list[UUID]:
        def run(db: LogConnection) -> list[UUID]:
            rows = db.execute(
                "SELECT id, task_id FROM tasks WHERE open = ? AND changed < ?"
                " ORDER BY changed LIMIT ?",
                (open_, limit, _DROPPED_AT_ONCE),
            ).fetchall()
            for number, task_id in rows:
                db.execute("DELETE FROM task_values WHERE task_id = ?", (task_id,))
                drop_deliveries(db, task_id)
                db.execute("DELETE FROM tasks WHERE id = ?", (number,))
            return [UUID(bytes=task_id) for _, task_id in rows]

        return await self._worker.submit(run)


def _is_applied(db: LogConnection, change: TaskChange) -> bool | None:
    """Return True if a change has been stored already, False if it is late, None if it fits."""
    row = db.execute(
        "SELECT version, revisions FROM tasks WHERE task_id = ?", (change.new.task_id.bytes,)
    ).fetchone()
    return False if row is None else is_applied(row[1].split(), row[0], change)


def _apply(db: LogConnection, change: TaskChange) -> bool:
    """Store a change; return False if it is late."""
    applied = _is_applied(db, change)
    if applied is None:
        _store(db, change)
    return applied is not False


def _store(db: LogConnection, change: TaskChange) -> None:
    new = change.new
    kept = KEPT_REVISIONS * (len(new.revision) + 1)
    db.execute(
        "UPDATE tasks SET state = ?, changed = ?, data = ?, open = ?, version = ?,"
        " revisions = substr(? || ' ' || revisions, 1, ?) WHERE task_id = ?",
        (
            *(new.state, new.changed, new.data, new.open, new.version),
            *(new.revision, kept, new.task_id.bytes),
        ),
    )
    _put_values(db, new.task_id, change.values)


def _put_values(db: LogConnection, task_id: UUID, values: Mapping[str, bytes]) -> None:
    db.executemany(
        "INSERT INTO task_values (task_id, name, value) VALUES (?, ?, ?)"
        " ON CONFLICT (task_id, name) DO UPDATE SET value = excluded.value",
        [(task_id.bytes, name, value) for name, value in values.items()],
    )


def _row(record: TaskRecord) -> tuple[Any, ...]:
    return (
        record.task_id.bytes,
        record.principal,
        record.context_id,
        record.state,
        record.changed,
        record.data,
        record.open,
        record.version,
        record.revision,
    )


def _record(row: tuple[Any, ...]) -> TaskRecord:
    task_id, principal, context_id, state, changed, data, open_, version, revisions = row
    revision = revisions.partition(" ")[0]
    return TaskRecord(
        *(UUID(bytes=task_id), principal, context_id, state, changed, data),
        *(bool(open_), version, revision),
    )


def _load(db: sqlite3.Connection, task_id: UUID) -> TaskRecord | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM tasks WHERE task_id = ?",  # noqa: S608
        (task_id.bytes,),
    ).fetchone()
    return None if row is None else _record(row)


def _find(db: sqlite3.Connection, query: TaskQuery) -> TaskPage:
    limits = {
        "principal = ?": query.principal,
        "context_id = ?": query.context_id,
        "state = ?": query.state,
        "changed >= ?": query.changed_since,
    }
    given = {text: value for text, value in limits.items() if value is not None}
    where, values = " AND ".join(["state != ''", *given]), list[Any](given.values())
    (total,) = db.execute(f"SELECT COUNT(*) FROM tasks WHERE {where}", values).fetchone()  # noqa: S608
    if query.after is not None:
        where += " AND (changed, task_id) < (?, ?)"
        values += [query.after.changed, query.after.task_id.bytes]
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM tasks WHERE {where}"  # noqa: S608
        " ORDER BY changed DESC, task_id DESC LIMIT ?",
        [*values, query.limit],
    )
    return TaskPage([_record(row) for row in rows], total)
