"""The logs that the contract is held against. A new one is one more entry in the table."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from coreason_client.server.log import MemoryStreamLog, SQLiteStreamLog, ValkeyStreamLog
from coreason_client.server.log.base import DurableLog

from .valkey_server import fresh_prefix, shared_cluster, shared_server


class Clock:
    """Time that stands still until a test moves it."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


Factory: TypeAlias = Callable[[Clock, Path], DurableLog]


def memory(clock: Clock, _: Path) -> DurableLog:
    return MemoryStreamLog(clock=clock)


def sqlite(clock: Clock, folder: Path) -> DurableLog:
    return SQLiteStreamLog(folder / "log.db", clock=clock)


def sqlite_without_cache(clock: Clock, folder: Path) -> DurableLog:
    return SQLiteStreamLog(folder / "log.db", clock=clock, cache_bytes=0)


def sqlite_moving(clock: Clock, folder: Path) -> DurableLog:
    """One that stores entries by stream with nearly every append, and reads them from there."""
    log = SQLiteStreamLog(folder / "log.db", clock=clock, cache_bytes=0)
    log._file.max_staged = 2
    return log


def valkey(clock: Clock, _: Path) -> DurableLog:
    return ValkeyStreamLog(shared_server().url, prefix=fresh_prefix(), clock=clock)


def valkey_cluster(clock: Clock, _: Path) -> DurableLog:
    url = shared_cluster().url
    return ValkeyStreamLog(url, prefix=fresh_prefix(), clock=clock, cluster=True)


BACKENDS: dict[str, Factory] = {
    "memory": memory,
    "sqlite": sqlite,
    "sqlite-uncached": sqlite_without_cache,
    "sqlite-moving": sqlite_moving,
    "valkey": valkey,
    "valkey-cluster": valkey_cluster,
}

Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[tuple[DurableLog, Clock]]]


def opener(make: Factory, folder: Path) -> Opener:
    """Return a function that starts a log for a while, with the clock that it uses."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[DurableLog, Clock]]:
        clock = Clock()
        log = make(clock, folder)
        await log.start("me")
        try:
            yield log, clock
        finally:
            await log.stop("me")

    return opened
