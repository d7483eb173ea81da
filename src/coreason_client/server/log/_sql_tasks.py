"""Tasks in the SQLite file of a log."""

import sqlite3
from typing import Any
from uuid import UUID

from ._shared_worker import SharedWorker
from ._sql import LogConnection
from ._sql_deliveries import SQLiteDeliveries, drop_deliveries
from ._task_waiters import TaskWaiters
from .tasks import TaskPage, TaskQuery, TaskRecord, TaskStore

__all__ = ["SQLiteTasks"]

_COLUMNS = "task_id, principal, context_id, state, changed, data, open, version"
_DROPPED_AT_ONCE = 50


class SQLiteTasks(TaskStore):
    """Tasks that outlive the process; `worker` runs the statements."""

    def __init__(self, worker: SharedWorker[LogConnection]) -> None:
        self.deliveries = SQLiteDeliveries(worker)
        self._worker = worker
        self._waiters = TaskWaiters()

    async def create(self, record: TaskRecord) -> bool:
        """Store a new task; return False if there is one with this id."""

        def run(db: LogConnection) -> bool:
            marks = ", ".join("?" * 8)
            added = db.execute(
                f"INSERT OR IGNORE INTO tasks ({_COLUMNS}) VALUES ({marks})",  # noqa: S608
                _row(record),
            )
            return added.rowcount == 1

        return await self._worker.submit(run)

    async def update(self, record: TaskRecord) -> bool:
        """Store the next version of a task; return False if another one was stored meanwhile."""

        def run(db: LogConnection) -> bool:
            changed = db.execute(
                "UPDATE tasks SET state = ?, changed = ?, data = ?, open = ?, version = ?"
                " WHERE task_id = ? AND version = ?",
                (
                    record.state,
                    record.changed,
                    record.data,
                    record.open,
                    record.version,
                    record.task_id.bytes,
                    record.version - 1,
                ),
            )
            return changed.rowcount == 1

        def after(updated: bool) -> None:
            if updated:
                self._waiters.wake(record.task_id)

        return await self._worker.submit(run, after)

    async def get(self, task_id: UUID) -> TaskRecord | None:
        """Return a task, None if there is none."""
        return await self._worker.submit(lambda db: _load(db, task_id))

    async def find(self, query: TaskQuery) -> TaskPage:
        """Return tasks, the latest change first."""
        return await self._worker.submit(lambda db: _find(db, query))

    async def wait(self, task_id: UUID, version: int, seconds: float) -> None:
        """Wait until a task has another version than this one, at most for so long."""
        with self._waiters.registered(task_id) as changed:
            record = await self.get(task_id)
            if record is not None and record.version == version:
                await self._waiters.wait_for(changed, seconds)

    async def put_value(self, task_id: UUID, name: str, value: bytes, epoch: int = 1) -> None:
        """Store a value beside a task; one of a later epoch stays as it is."""
        await self._worker.submit(
            lambda db: db.execute(
                "INSERT INTO task_values (task_id, name, value, epoch) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (task_id, name) DO UPDATE"
                " SET value = excluded.value, epoch = excluded.epoch WHERE epoch <= excluded.epoch",
                (task_id.bytes, name, value, epoch),
            )
        )

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
    )


def _record(row: tuple[Any, ...]) -> TaskRecord:
    task_id, principal, context_id, state, changed, data, open_, version = row
    return TaskRecord(
        UUID(bytes=task_id), principal, context_id, state, changed, data, bool(open_), version
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
