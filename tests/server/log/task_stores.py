"""The stores of tasks that the tests of their contracts open."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

from coreason_client.server.log import (
    MemoryStreamLog,
    NewStream,
    PostgresStreamLog,
    SQLiteStreamLog,
    ValkeyStreamLog,
)
from coreason_client.server.log.tasks import TaskRecord, TaskStore

from . import postgres_server
from .valkey_server import fresh_prefix, shared_cluster, shared_server

TaskKeeper: TypeAlias = MemoryStreamLog | SQLiteStreamLog | ValkeyStreamLog | PostgresStreamLog
Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[TaskStore]]
KINDS = ["memory", "sqlite", "valkey", "valkey_cluster", "postgres"]


async def stored(tasks: TaskStore, *records: TaskRecord, **values: bytes) -> None:
    """Store new tasks, each with a stream and these values."""
    for record in records:
        new = NewStream(record.task_id, record.principal, uuid4(), "print")
        assert (await tasks.begin(new, record, values)).opened is not None


@asynccontextmanager
async def started(log: TaskKeeper) -> AsyncIterator[TaskKeeper]:
    await log.start("me")
    try:
        yield log
    finally:
        await log.stop("me")


def on_log(make: Callable[[], TaskKeeper]) -> Opener:
    @asynccontextmanager
    async def open_() -> AsyncIterator[TaskStore]:
        async with started(make()) as log:
            yield log.tasks

    return open_


def opener(kind: str, folder: Path) -> Opener:
    """Return what opens a store of one of `KINDS`."""
    return on_log(maker(kind, folder))


def maker(kind: str, folder: Path) -> Callable[[], TaskKeeper]:
    """Return what makes a log of one of `KINDS`; all logs that it makes share their data."""
    prefix = fresh_prefix()
    match kind:
        case "memory":
            log = MemoryStreamLog()
            return lambda: log
        case "sqlite":
            return lambda: SQLiteStreamLog(folder / "log.db")
        case "valkey":
            return lambda: ValkeyStreamLog(shared_server().url, prefix=prefix)
        case "postgres":
            schema = postgres_server.fresh_schema()
            return lambda: PostgresStreamLog(postgres_server.shared_server().url, schema=schema)
    url = shared_cluster().url
    return lambda: ValkeyStreamLog(url, prefix=prefix, cluster=True)
