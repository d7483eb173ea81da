"""The thread of the SQLite log: whatever fails in it, no caller hangs."""

import ast
import asyncio
import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from coreason_client.server import log as log_package
from coreason_client.server.errors import LogUnavailable, UnknownStream
from coreason_client.server.log._worker import Worker

from ..aio import aio


class Database:
    """A database in memory, with one table, that fails as a test wants it to."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.problem_error: BaseException | None = None
        self.maintain_error: BaseException | None = None
        self.close_error: BaseException | None = None
        self.ends: list[str] = []

    def connect(self) -> sqlite3.Connection:
        database = self

        class Connection(sqlite3.Connection):
            def close(self) -> None:
                super().close()
                if database.close_error is not None:
                    raise database.close_error

        db = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
        db.execute("CREATE TABLE rows (value)")
        return db

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def maintain(self, _: sqlite3.Connection) -> None:
        if self.maintain_error is not None:
            raise self.maintain_error

    def back_up(self, connection: sqlite3.Connection, run_waiting: Callable[[], bool]) -> None:
        pass

    def close(self, connection: sqlite3.Connection) -> None:
        connection.close()

    def problem(self) -> str | None:
        if self.problem_error is not None:
            raise self.problem_error
        return self.refusal

    def failed(self, _: sqlite3.Connection, error: sqlite3.Error) -> str:
        return f"explained: {error}"


def insert(value: object) -> Callable[[sqlite3.Connection], object]:
    def run(db: sqlite3.Connection) -> object:
        db.execute("INSERT INTO rows VALUES (?)", (value,))
        return value

    return run


def fail(error: BaseException) -> Callable[[sqlite3.Connection], None]:
    def run(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO rows VALUES ('of the job that fails')")
        raise error

    return run


def rows(db: sqlite3.Connection) -> list[object]:
    return [value for (value,) in db.execute("SELECT value FROM rows ORDER BY rowid")]


def started(database: Database) -> Worker[sqlite3.Connection]:
    worker = Worker[sqlite3.Connection](database, on_end=lambda: database.ends.append("ended"))
    worker.start()
    return worker


def held_up(worker: Worker[sqlite3.Connection]) -> threading.Event:
    """Keep the thread busy, so that the jobs that follow share one commit."""
    begun, release = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        begun.set()
        release.wait(10)

    # Its commit may fail in a test; asyncio would report that later, in another test.
    worker.submit(hold).add_done_callback(lambda done: done.cancelled() or done.exception())
    assert begun.wait(10)  # or what follows would be in the same commit
    return release


class Bug(BaseException):
    """Neither an Exception nor anything that the thread expects."""


@pytest.mark.parametrize("error", [TypeError("wrong"), DeprecationWarning("old"), Bug("bug")])
@aio
async def test_an_error_of_a_job_reaches_its_caller_and_nobody_else(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    worker = started(Database())
    release = held_up(worker)
    jobs: list[asyncio.Future[Any]] = [
        worker.submit(insert(1)),
        worker.submit(fail(error)),
        worker.submit(insert(2)),
        worker.submit(fail(UnknownStream(uuid4()))),
    ]
    with caplog.at_level(logging.ERROR, "coreason_client.server"):
        release.set()
        results = await asyncio.gather(*jobs, return_exceptions=True)
    assert (results[0], results[2]) == (1, 2)
    assert isinstance(results[1], LogUnavailable)
    assert results[1].__cause__ is error
    assert type(error).__name__ in str(results[1])
    [record] = [record for record in caplog.records if record.exc_info is not None]
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert isinstance(results[3], UnknownStream)
    # A LogError promises that its job wrote nothing, so that nothing is rolled back for it.
    assert await worker.submit(rows) == [1, 2, "of the job that fails"]
    worker.stop()


@aio
async def test_an_error_of_sqlite_is_explained() -> None:
    worker = started(Database())
    with pytest.raises(LogUnavailable, match="explained: no such table: missing") as caught:
        await worker.submit(lambda db: db.execute("SELECT * FROM missing"))
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    worker.stop()


@pytest.mark.parametrize("error", [TypeError("wrong"), Bug("bug")])
@aio
async def test_an_error_after_the_commit_reaches_its_caller_and_nobody_else(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    worker = started(Database())
    seen: list[object] = []

    def after(value: object) -> None:
        if value == 2:
            raise error
        seen.append(value)

    release = held_up(worker)
    jobs = [worker.submit(insert(value), after) for value in (1, 2, 3)]
    with caplog.at_level(logging.ERROR, "coreason_client.server"):
        release.set()
        results = await asyncio.gather(*jobs, return_exceptions=True)
    assert (results[0], results[2]) == (1, 3)
    assert isinstance(results[1], LogUnavailable)
    assert results[1].__cause__ is error
    assert seen == [1, 3]
    assert any(record.exc_info for record in caplog.records)
    assert await worker.submit(rows) == [1, 2, 3]
    worker.stop()


def test_results_for_a_closed_event_loop_harm_nobody() -> None:
    worker = started(Database())
    releases: list[threading.Event] = []
    seen: list[object] = []

    def after(value: object) -> None:
        seen.append(value)
        raise TypeError("wrong")

    async def leave() -> None:
        releases.append(held_up(worker))
        worker.submit(insert(1), after)

    asyncio.run(leave())

    async def ask() -> Any:
        releases[0].set()
        return await asyncio.wait_for(worker.submit(rows), 10)

    assert asyncio.run(ask()) == [1]
    assert seen == [1]  # it was written, so it counts
    worker.stop()


@pytest.mark.parametrize("point", ["maintain_error", "problem_error"])
@aio
async def test_when_the_thread_ends_everybody_is_refused(
    point: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database()
    worker = started(database)
    release = held_up(worker)
    waiting = [worker.submit(insert(value)) for value in range(600)]  # three commits
    setattr(database, point, Bug("unheard of"))
    with caplog.at_level(logging.CRITICAL, "coreason_client.server"):
        release.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {LogUnavailable}
    assert {str(result) for result in results} == {
        "the thread of the log has ended with an error (Bug: unheard of): restart the server"
    }
    with pytest.raises(LogUnavailable, match="unheard of"):
        worker.submit(insert(1))
    assert worker.refusal is not None
    worker.stop()
    worker.stop()
    assert database.ends == ["ended"]
    assert any(record.exc_info for record in caplog.records)


@aio
async def test_an_error_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def on_end() -> None:
        raise Bug("at the end")

    worker = Worker[sqlite3.Connection](Database(), on_end=on_end)
    worker.start()
    with caplog.at_level(logging.ERROR, "coreason_client.server"):
        worker.stop()
    assert "at the end" in caplog.text


@aio
async def test_a_problem_with_the_file_refuses_what_was_written_to_it() -> None:
    database = Database()
    worker = started(database)
    release = held_up(worker)
    waiting = [worker.submit(insert(value), lambda _: pytest.fail("shown")) for value in range(3)]
    database.refusal = "the file is gone"
    release.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(result) for result in results] == ["the file is gone"] * 3
    database.refusal = None
    with pytest.raises(LogUnavailable, match="the file is gone"):
        worker.submit(insert(1))
    worker.stop()


@pytest.mark.parametrize("error", [sqlite3.OperationalError("busy"), Bug("bug")])
@aio
async def test_a_connection_that_cannot_be_closed_is_logged(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database()
    database.close_error = error
    worker = started(database)
    assert await worker.submit(insert(1)) == 1
    with caplog.at_level(logging.WARNING, "coreason_client.server"):
        worker.stop()
    assert database.ends == ["ended"]
    assert "could not be closed" in caplog.text
    with pytest.raises(LogUnavailable, match="stopped"):
        worker.submit(insert(1))


@pytest.mark.parametrize("error", [LogUnavailable("refused"), TypeError("wrong"), Bug("bug")])
def test_an_error_of_the_start_is_raised_by_the_start(error: BaseException) -> None:
    class Broken(Database):
        def connect(self) -> sqlite3.Connection:
            raise error

    with pytest.raises(type(error)) as caught:
        started(Broken())
    assert caught.value is error


@aio
async def test_a_job_that_comes_with_the_stop_is_run_or_refused() -> None:
    """From many threads at once: none is left behind in the queue."""
    worker = started(Database())
    outcomes: list[object] = []
    begun = threading.Barrier(5)

    async def ask() -> None:
        begun.wait(10)
        while True:
            try:
                outcomes.append(await asyncio.wait_for(worker.submit(insert(1)), 10))
            except LogUnavailable:
                return

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(begun.wait, 10)
    await asyncio.to_thread(worker.stop)
    for thread in threads:
        await asyncio.to_thread(thread.join, 15)
        assert not thread.is_alive()
    assert set(outcomes) <= {1}


@aio
async def test_a_job_that_ends_the_transaction_does_not_stop_the_next() -> None:
    worker = started(Database())

    def commit(db: sqlite3.Connection) -> None:
        db.execute("COMMIT")

    def begin_twice(db: sqlite3.Connection) -> None:
        db.execute("BEGIN")

    for job in (commit, begin_twice):
        with pytest.raises(LogUnavailable, match="transaction"):
            await worker.submit(job)
    await worker.submit(insert(1))
    assert await worker.submit(rows) == [1]
    worker.stop()


def test_no_statement_has_numbered_placeholders() -> None:
    """Python 3.12 deprecated them together with a sequence of values."""
    folder = Path(log_package.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.search(r"\?\d", node.value), (path.name, node.lineno)
