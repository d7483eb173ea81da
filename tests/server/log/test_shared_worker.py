"""The worker that several owners share."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log._worker import SharedWorker

from ..aio import aio


class MemoryDatabase:
    """A database in memory that records when it is opened and closed."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.fault: str | None = None

    def connect(self) -> sqlite3.Connection:
        self.events.append("connect")
        return sqlite3.connect(":memory:", isolation_level=None)

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN")
        yield
        connection.execute("COMMIT")

    def maintain(self, connection: sqlite3.Connection) -> None:
        pass

    def back_up(self, connection: sqlite3.Connection, run_waiting: Callable[[], bool]) -> None:
        pass

    def close(self, connection: sqlite3.Connection) -> None:
        self.events.append("close")
        connection.close()

    def problem(self) -> str | None:
        return self.fault

    def failed(self, connection: sqlite3.Connection, error: sqlite3.Error) -> str:
        return str(error)


def make() -> tuple[SharedWorker[sqlite3.Connection], MemoryDatabase]:
    database = MemoryDatabase()
    worker = SharedWorker(
        "log.db",
        database,
        on_end=lambda: database.events.append("end"),
        on_stopped=lambda: database.events.append("stopped"),
    )
    return worker, database


def one(connection: sqlite3.Connection) -> int:
    number: int = connection.execute("SELECT 1").fetchone()[0]
    return number


@aio
async def test_the_first_owner_starts_the_worker_and_the_last_one_stops_it() -> None:
    worker, database = make()
    worker.start("a")
    worker.start("b")
    worker.start("b")
    assert database.events == ["connect"]
    worker.stop("a")
    worker.check()
    assert await worker.submit(one) == 1
    worker.stop("b")
    assert database.events == ["connect", "end", "close", "stopped"]


@aio
async def test_a_worker_that_is_not_started_refuses_jobs() -> None:
    worker, _ = make()
    for _ in range(2):
        with pytest.raises(LogUnavailable, match=r"the log log\.db has not been started"):
            worker.check()
        with pytest.raises(LogUnavailable, match=r"the log log\.db has not been started"):
            worker.submit(one)
        worker.start("a")
        worker.stop("a")


@aio
async def test_a_start_replaces_a_worker_whose_thread_has_ended() -> None:
    worker, database = make()
    worker.start("a")
    database.fault = "the file is gone"
    with pytest.raises(LogUnavailable, match="the file is gone"):
        await worker.submit(one)
    with pytest.raises(LogUnavailable, match="the file is gone"):
        worker.check()
    with pytest.raises(LogUnavailable, match="the file is gone"):
        worker.submit(one)
    database.fault = None
    worker.start("a")
    assert await worker.submit(one) == 1
    assert database.events == ["connect", "end", "close", "stopped", "connect"]
    worker.stop("a")
