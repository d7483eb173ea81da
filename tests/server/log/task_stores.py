"""The stores of tasks that the tests of their contracts open."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from coreason_client.server.log import SQLiteStreamLog, ValkeyStreamLog
from coreason_client.server.log._memory_tasks import MemoryTasks
from coreason_client.server.log.tasks import TaskStore

from .valkey_server import fresh_prefix, shared_cluster, shared_server

Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[TaskStore]]
KINDS = ["memory", "sqlite", "valkey", "valkey_cluster"]


@asynccontextmanager
async def memory() -> AsyncIterator[TaskStore]:
    yield MemoryTasks()


def on_log(make: Callable[[], SQLiteStreamLog | ValkeyStreamLog]) -> Opener:
    @asynccontextmanager
    async def open_() -> AsyncIterator[TaskStore]:
        log = make()
        await log.start("me")
        try:
            yield log.tasks
        finally:
            await log.stop("me")

    return open_


def opener(kind: str, folder: Path) -> Opener:
    """Return what opens a store of one of `KINDS`."""
    match kind:
        case "memory":
            return memory
        case "sqlite":
            return on_log(lambda: SQLiteStreamLog(folder / "log.db"))
        case "valkey":
            return on_log(lambda: ValkeyStreamLog(shared_server().url, prefix=fresh_prefix()))
    url = shared_cluster().url
    return on_log(lambda: ValkeyStreamLog(url, prefix=fresh_prefix(), cluster=True))
