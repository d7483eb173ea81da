"""One thread that owns a SQLite connection; the jobs that are waiting share one commit."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import LogError, LogUnavailable

__all__ = ["Worker"]

T = TypeVar("T")
_MOST_JOBS = 256  # in one commit


class _Job:
    """Something to do with the connection, and whom to tell."""

    __slots__ = ("after", "error", "future", "loop", "result", "run")

    def __init__(
        self,
        run: Callable[[sqlite3.Connection], Any],
        after: Callable[[Any], None] | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.run = run
        self.after = after
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: LogError | None = None


class Worker:
    """Runs jobs in the order of their coming.

    A job checks before it writes, and raises a `LogError` only before it writes: then the others
    of its commit are not touched. An error of SQLite rolls the commit back, and each job is tried
    alone, so that one that cannot succeed does not take the others with it.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="coreason-log", daemon=True)
        self._stopped = False

    def start(self) -> None:
        """Start the thread and wait until it has its connection.

        Raises:
            LogUnavailable: it cannot be had.
        """
        self._thread.start()
        error = self._ready.get()
        if error is not None:
            self._thread.join()
            raise error

    def stop(self) -> None:
        """Finish what is waiting, close the connection and end the thread."""
        self._stopped = True
        self._jobs.put(None)
        self._thread.join()

    def submit(
        self,
        run: Callable[[sqlite3.Connection], T],
        after: Callable[[T], None] | None = None,
    ) -> asyncio.Future[T]:
        """Run a job; `after` is called with its result once it is committed.

        It is called whether or not anybody still waits for the result.
        """
        if self._stopped:
            raise LogUnavailable("the log has been stopped")
        job = _Job(run, after, asyncio.get_running_loop())
        self._jobs.put(job)
        return job.future

    def _work(self) -> None:
        try:
            connection = self._connect()
        except Exception as error:  # noqa: BLE001 - raised by `start`, in the thread that waits
            self._ready.put(error)
            return
        self._ready.put(None)
        try:
            while batch := self._next_batch():
                self._run(connection, batch)
                _tell(batch)
        finally:
            connection.close()

    def _next_batch(self) -> list[_Job]:
        """Wait for a job and take those that wait behind it; nothing when it is time to stop."""
        job = self._jobs.get()
        batch: list[_Job] = []
        while job is not None:
            batch.append(job)
            if len(batch) == _MOST_JOBS:
                return batch
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch
        if batch:
            self._jobs.put(None)  # these first, then stop
        return batch

    def _run(self, connection: sqlite3.Connection, batch: list[_Job]) -> None:
        try:
            _commit(connection, batch)
        except sqlite3.Error:
            for job in batch:
                try:
                    _commit(connection, [job])
                except sqlite3.Error as error:
                    job.error = LogUnavailable(f"the log cannot be written or read: {error}")


def _commit(connection: sqlite3.Connection, batch: list[_Job]) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
        for job in batch:
            try:
                job.result, job.error = job.run(connection), None
            except LogError as error:
                job.error = error
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _tell(batch: list[_Job]) -> None:
    """Hand out the results with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in batch:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, jobs)
        except RuntimeError:  # the loop is closed; nobody waits, but what was written counts
            _finish(jobs)


def _settle(jobs: list[_Job]) -> None:
    _finish(jobs)
    for job in jobs:
        if job.future.done():  # cancelled meanwhile
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _finish(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.after is not None and job.error is None:
            job.after(job.result)
