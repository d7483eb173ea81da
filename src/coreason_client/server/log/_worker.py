"""One thread that owns a SQLite connection; the jobs that are waiting share one commit.

Whatever fails, no caller waits for ever. An error of a job reaches its caller, and the thread goes
on. When the thread ends, every job that waits and every later one is refused with one sentence.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from ..errors import LogError, LogUnavailable
from ._gather import Gather

__all__ = ["Database", "Worker"]

logger = logging.getLogger("coreason_client.server")

T = TypeVar("T")
Connection = TypeVar("Connection", bound=sqlite3.Connection)
_MOST_JOBS = 256  # in one commit
# How long a batch may be held back. A commit costs the same for one append as for ten.
_GATHER_SECONDS = 0.005
_STOPPED = "the log has been stopped"


class Database(Protocol[Connection]):
    """The database that a worker works on; all methods are called in the worker's thread."""

    def connect(self) -> Connection:
        """Open the database."""

    def begin(self, connection: Connection) -> None:
        """Begin a transaction."""

    def commit(self, connection: Connection) -> None:
        """Commit a transaction."""

    def rollback(self, connection: Connection) -> None:
        """Undo a transaction, which may have ended already."""

    def maintain(self, connection: Connection) -> None:
        """Do what can be done after a commit; no caller waits for it. It does not raise."""

    def close(self, connection: Connection) -> None:
        """Close the database."""

    def problem(self) -> str | None:
        """Return why nothing may be written any more, None while all is well."""

    def failed(self, connection: Connection, error: sqlite3.Error) -> str:
        """Put right what an error of SQLite has left behind, and return a sentence for it."""


class _Job:
    """A function to call with the connection, and the future of its caller."""

    __slots__ = ("after", "error", "future", "loop", "result", "run")

    def __init__(
        self,
        run: Callable[[Any], Any],
        after: Callable[[Any], None] | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.run = run
        self.after = after
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: LogError | None = None


class Worker(Generic[Connection]):
    """Runs jobs in the order in which they were submitted.

    A job checks before it writes, and raises a `LogError` only before it writes: then the others
    of its commit are not touched. Any other error rolls the commit back, and each job is tried
    alone, so that one that cannot succeed does not take the others with it. Errors that are not
    `LogError` reach the caller as a `LogUnavailable` with the error as its cause.

    `on_end` is called once, in the thread, when it ends and `refusal` is set.
    """

    def __init__(
        self, database: Database[Connection], on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._database = database
        self._on_end = on_end
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="coreason-log", daemon=True)
        self._gather = Gather(_GATHER_SECONDS)
        self._lock = threading.Lock()  # nothing enters the queue after `refusal` is set
        self.refusal: str | None = None
        """The sentence with which jobs are refused, None while they are run."""

    def start(self) -> None:
        """Start the thread and wait until it has its connection.

        Raises:
            LogUnavailable: there is no connection.
        """
        self._thread.start()
        error = self._ready.get()
        if error is not None:
            self._thread.join()
            raise error

    def stop(self) -> None:
        """Run the jobs that are waiting, close the connection and end the thread."""
        self._refuse(_STOPPED)
        self._jobs.put(None)
        self._thread.join()

    def submit(
        self,
        run: Callable[[Connection], T],
        after: Callable[[T], None] | None = None,
    ) -> asyncio.Future[T]:
        """Run a job; `after` is called with its result once it is committed.

        It is called whether or not anybody still waits for the result.

        Raises:
            LogUnavailable: the thread has ended or is about to.
        """
        job = _Job(run, after, asyncio.get_running_loop())
        with self._lock:
            if self.refusal is not None:
                raise LogUnavailable(self.refusal)
            self._jobs.put(job)
        return job.future

    def _refuse(self, sentence: str) -> None:
        with self._lock:
            if self.refusal is None:
                self.refusal = sentence

    def _work(self) -> None:
        try:
            connection = self._database.connect()
        except BaseException as error:  # noqa: BLE001 - raised by `start`, in the thread that waits
            self._refuse(_STOPPED)
            self._ready.put(error)
            return
        self._ready.put(None)
        batch: list[_Job] = []
        try:
            while batch := self._next_batch():
                self._run(connection, batch)
                if problem := self._database.problem():
                    logger.error("%s", problem)
                    self._refuse(problem)
                    break
                self._gather.done(waiting=not self._jobs.empty())
                _deliver(batch)
                batch = []  # they have their results, whatever happens now
                self._database.maintain(connection)
        except BaseException as error:
            self._refuse(
                f"the thread of the log has ended with an error ({_name(error)}): "
                "restart the server"
            )
            logger.critical("the thread of the log has ended with an error", exc_info=error)
        finally:
            self._end(connection, batch)

    def _end(self, connection: Connection, batch: list[_Job]) -> None:
        """Refuse every job that has no result yet and close the connection."""
        try:
            _refuse_all(batch, self.refusal or _STOPPED)
            _refuse_all(self._waiting(), self.refusal or _STOPPED)
            self._on_end()
        except BaseException:  # nobody is left to raise it to
            logger.exception("the end of the log's thread was not complete")
        finally:
            try:
                self._database.close(connection)
            except BaseException:  # nobody is left to raise it to
                logger.warning("the connection of the log could not be closed", exc_info=True)

    def _next_batch(self) -> list[_Job]:
        """Wait for a job and take those that wait behind it; nothing when it is time to stop."""
        job = self._jobs.get()
        if job is not None and (early := self._gather.early(time.monotonic())):
            time.sleep(early)
        self._gather.begun(time.monotonic())
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

    def _waiting(self) -> Iterable[_Job]:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                yield job

    def _run(self, connection: Connection, batch: list[_Job]) -> None:
        try:
            self._commit(connection, batch)
        except BaseException as error:  # noqa: BLE001 - an error of a job is its caller's
            if len(batch) == 1:
                batch[0].error = self._failure(connection, error)
                return
            for job in batch:
                self._run(connection, [job])

    def _commit(self, connection: Connection, batch: list[_Job]) -> None:
        self._database.begin(connection)
        try:
            for job in batch:
                try:
                    job.result, job.error = job.run(connection), None
                except LogError as error:
                    job.error = error
            self._database.commit(connection)
        except BaseException:
            self._database.rollback(connection)
            raise

    def _failure(self, connection: Connection, error: BaseException) -> LogUnavailable:
        if isinstance(error, sqlite3.Error):
            return _caused_by(error, self._database.failed(connection, error))
        return _bug(error)


def _deliver(batch: list[_Job]) -> None:
    """Hand out the results with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in batch:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, jobs)
        except RuntimeError:  # the loop is closed; nobody waits, but what was written counts
            for job in jobs:
                _finish(job)


def _settle(jobs: list[_Job]) -> None:
    for job in jobs:
        _finish(job)
    for job in jobs:
        if job.future.done():  # cancelled meanwhile
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _finish(job: _Job) -> None:
    if job.after is not None and job.error is None:
        try:
            job.after(job.result)
        except BaseException as error:  # noqa: BLE001 - the caller's, and no other job's
            job.error = _bug(error)


def _refuse_all(jobs: Iterable[_Job], sentence: str) -> None:
    refused = list(jobs)
    for job in refused:
        job.error = LogUnavailable(sentence)
    _deliver(refused)


def _bug(error: BaseException) -> LogUnavailable:
    logger.error("an operation of the log failed with an unexpected error", exc_info=error)
    return _caused_by(error, f"an operation of the log failed unexpectedly ({_name(error)})")


def _caused_by(error: BaseException, message: str) -> LogUnavailable:
    failure = LogUnavailable(message)
    failure.__cause__ = error
    return failure


def _name(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
