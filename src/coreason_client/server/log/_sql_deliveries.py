"""Deliveries in the SQLite file of a log."""

import sqlite3
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ._shared_worker import SharedWorker
from ._sql import LogConnection
from .deliveries import Delivery, DeliveryStore

__all__ = ["SQLiteDeliveries", "drop_deliveries"]

_COLUMNS = "task_id, name, data, progress, due, revision"


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
        f"INSERT OR REPLACE INTO deliveries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608
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
    rows = db.execute(f"SELECT {_COLUMNS} FROM deliveries WHERE {where}", values)  # noqa: S608
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
