"""The logs that the contract is held against. A new one is one more entry in the table."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from coreason_client.server.log import (
    MemoryStreamLog,
    PostgresStreamLog,
    SQLiteStreamLog,
    ValkeyStreamLog,
)
from coreason_client.server.log.base import DurableLog
from coreason_client.testing.contracts._log_tests import ManualClock as Clock

from . import postgres_server
from .valkey_server import fresh_prefix, shared_cluster, shared_server

__all__ = ["BACKENDS", "Clock", "Factory"]

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


def postgres(clock: Clock, _: Path) -> DurableLog:
    schema = postgres_server.fresh_schema()
    return PostgresStreamLog(postgres_server.shared_server().url, schema=schema, clock=clock)


def postgres_pooled(clock: Clock, _: Path) -> DurableLog:
    """One behind a pooler that gives each transaction another connection."""
    return PostgresStreamLog(
        postgres_server.shared_pooler().url,
        listen_url=postgres_server.shared_server().url,
        schema=postgres_server.fresh_schema(),
        clock=clock,
    )


BACKENDS: dict[str, Factory] = {
    "memory": memory,
    "sqlite": sqlite,
    "sqlite-uncached": sqlite_without_cache,
    "sqlite-moving": sqlite_moving,
    "valkey": valkey,
    "valkey-cluster": valkey_cluster,
    "postgres": postgres,
    "postgres-pooled": postgres_pooled,
}
