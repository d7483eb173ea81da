"""A thread that owns a SQLite connection; jobs that wait at the same time share one commit.

No failure leaves a caller waiting forever. An error of a job is raised to its caller, and the
thread continues. When the thread ends, all waiting and all later jobs fail with one message.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ..errors import LogError, LogUnavailable

# The delay of a batch, so that more calls can share its cost. No I/O.
#
# Most of the cost of a small batch (a commit, a round trip) does not depend on its size. If calls
# are independent, some arrive while a batch is running; then more will arrive soon, and a short
# delay pays off. A caller that waits for its result before its next call is never delayed: it sends
# nothing while its batch is running, and a delay would only cost it time.

_WEIGHT = 0.1  # of the latest batch in the moving average
_BUSY_SHARE = 0.1  # delay if calls arrive during more than this share of the batches


class BatchDelay:
    """The delay before the next batch of one queue; the caller passes the time in seconds."""

    __slots__ = ("_busy", "_next", "_seconds")

    def __init__(self, seconds: float = 0.002) -> None:
        self._seconds = seconds
        self._next = 0.0  # the earliest start of the next batch
        self._busy = 0.0  # moving average: the share of batches during which calls arrived

    def remaining(self, now: float) -> float:
        """Return how long to delay the next batch."""
        return max(self._next - now, 0.0) if self._busy > _BUSY_SHARE else 0.0

    def batch_started(self, now: float) -> None:
        """Record the start of a batch."""
        self._next = now + self._seconds

    def batch_finished(self, *, more_waiting: bool) -> None:
        """Record the end of a batch, and whether calls arrived while it was running."""
        self._busy += _WEIGHT * (more_waiting - self._busy)


logger = logging.getLogger("coreason_client.server")

T = TypeVar("T")
Connection = TypeVar("Connection", bound=sqlite3.Connection)
_MAX_JOBS = 256  # in one commit
# How long a batch may be delayed. A commit costs the same for one append as for ten.
_BATCH_DELAY_SECONDS = 0.005
_IDLE_SECONDS = 1.0  # until an idle worker looks for the request of a backup
_STOPPED = "the log has been stopped"


class Database(Protocol[Connection]):
    """The database of a worker; all methods are called in the worker's thread."""

    def connect(self) -> Connection:
        """Open the database."""

    def transaction(self, connection: Connection) -> AbstractContextManager[None]:
        """Return a transaction: it is committed, or rolled back if its body or the commit fails."""

    def maintain(self, connection: Connection) -> None:
        """Do maintenance after a commit; no caller waits for it. It must not raise."""

    def back_up(self, connection: Connection, run_waiting: Callable[[], bool]) -> None:
        """Copy the database if a copy is requested; must not raise. It is called now and then.

        Between two steps it calls `run_waiting`, which returns False if it must end.
        """

    def close(self, connection: Connection) -> None:
        """Close the database."""

    def problem(self) -> str | None:
        """Return why the database must not be written any more, None if there is no problem."""

    def failed(self, connection: Connection, error: sqlite3.Error) -> str:
        """Handle an error of SQLite, and return a message for it."""


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
    """Runs jobs in the order of their submission.

    A job may raise a `LogError` only before its first write; then the other jobs of the commit are
    not affected. Any other error rolls the commit back, and each job is run again alone, so that
    one failing job does not fail the others. Errors that are not a `LogError` are raised to the
    caller as a `LogUnavailable` with the error as its cause.

    `on_end` is called once, in the thread, when the thread ends; `refusal` is set before.
    """

    def __init__(
        self, database: Database[Connection], on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._database = database
        self._on_end = on_end
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="coreason-log", daemon=True)
        self._batch_delay = BatchDelay(_BATCH_DELAY_SECONDS)
        self._batch: list[_Job] = []  # without a result
        self._lost = False  # the database must not be written any more
        self._lock = threading.Lock()  # no job is queued after `refusal` is set
        self.refusal: str | None = None
        """The reason why new jobs are refused, None while the worker accepts them."""

    def start(self) -> None:
        """Start the thread and wait until it is connected.

        Raises:
            LogUnavailable: the database cannot be opened.
        """
        self._thread.start()
        error = self._ready.get()
        if error is not None:
            self._thread.join()
            raise error

    def stop(self) -> None:
        """Run the waiting jobs, close the connection and end the thread."""
        self._refuse(_STOPPED)
        self._jobs.put(None)
        self._thread.join()

    def submit(
        self,
        run: Callable[[Connection], T],
        after: Callable[[T], None] | None = None,
    ) -> asyncio.Future[T]:
        """Run a job; `after` is called with its result after the commit.

        `after` is called even if the caller was cancelled.

        Raises:
            LogUnavailable: the thread has ended or is about to.
        """
        job = _Job(run, after, asyncio.get_running_loop())
        with self._lock:
            if self.refusal is not None:
                raise LogUnavailable(self.refusal)
            self._jobs.put(job)
        return job.future

    def _refuse(self, reason: str) -> None:
        with self._lock:
            if self.refusal is None:
                self.refusal = reason

    def _work(self) -> None:
        try:
            connection = self._database.connect()
        except BaseException as error:  # noqa: BLE001 - `start` raises it in the waiting thread
            self._refuse(_STOPPED)
            self._ready.put(error)
            return
        self._ready.put(None)
        run_waiting = partial(self._run_waiting, connection)
        try:
            while self._run_next(connection, _IDLE_SECONDS):
                self._database.back_up(connection, run_waiting)
        except BaseException as error:
            self._refuse(
                f"the thread of the log has ended with an error ({_name(error)}): "
                "restart the server"
            )
            logger.critical("the thread of the log has ended with an error", exc_info=error)
        finally:
            self._end(connection)

    def _run_next(self, connection: Connection, wait: float) -> bool:
        """Run the jobs that wait, or that come within some seconds; return False to stop."""
        if self._lost or (batch := self._next_batch(wait)) is None:
            return False
        if not batch:
            return True
        self._batch = batch
        self._run(connection, batch)
        if problem := self._database.problem():
            logger.error("%s", problem)
            self._refuse(problem)
            self._lost = True
            return False
        self._batch_delay.batch_finished(more_waiting=not self._jobs.empty())
        _deliver(batch)
        self._batch = []  # these jobs are done, even if the next step fails
        self._database.maintain(connection)
        return True

    def _run_waiting(self, connection: Connection) -> bool:
        """Run one batch of the jobs that wait; return False if the worker must stop."""
        if self._jobs.empty() or self._run_next(connection, 0):
            return True
        self._jobs.put(None)
        return False

    def _end(self, connection: Connection) -> None:
        """Fail all jobs without a result and close the connection."""
        try:
            _refuse_all(self._batch, self.refusal or _STOPPED)
            _refuse_all(self._waiting(), self.refusal or _STOPPED)
            self._on_end()
        except BaseException:  # there is no caller to raise it to
            logger.exception("the thread of the log failed while it was ending")
        finally:
            try:
                self._database.close(connection)
            except BaseException:  # there is no caller to raise it to
                logger.warning("the connection of the log could not be closed", exc_info=True)

    def _next_batch(self, wait: float) -> list[_Job] | None:
        """Wait for a job and take all jobs that wait with it; return None to stop."""
        try:
            job = self._jobs.get(timeout=wait)
        except queue.Empty:
            return []
        if job is None:
            return None
        if delay := self._batch_delay.remaining(time.monotonic()):
            time.sleep(delay)
        self._batch_delay.batch_started(time.monotonic())
        batch: list[_Job] = []
        while job is not None:
            batch.append(job)
            if len(batch) == _MAX_JOBS:
                return batch
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch
        if batch:
            self._jobs.put(None)  # run these first, then stop
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
        except BaseException as error:  # noqa: BLE001 - it is raised to the caller of the job
            if len(batch) == 1:
                batch[0].error = self._failure(connection, error)
                return
            for job in batch:
                self._run(connection, [job])

    def _commit(self, connection: Connection, batch: list[_Job]) -> None:
        with self._database.transaction(connection):
            for job in batch:
                try:
                    job.result, job.error = job.run(connection), None
                except LogError as error:
                    job.error = error

    def _failure(self, connection: Connection, error: BaseException) -> LogUnavailable:
        if isinstance(error, sqlite3.Error):
            return _caused_by(error, self._database.failed(connection, error))
        return _unexpected(error)


def _deliver(batch: list[_Job]) -> None:
    """Deliver the results, with one call for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in batch:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_set_results, jobs)
        except (
            RuntimeError
        ):  # the loop is closed; `after` is called all the same, because the data is committed
            for job in jobs:
                _call_after(job)


def _set_results(jobs: list[_Job]) -> None:
    for job in jobs:
        _call_after(job)
    for job in jobs:
        if job.future.done():  # cancelled meanwhile
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _call_after(job: _Job) -> None:
    if job.after is not None and job.error is None:
        try:
            job.after(job.result)
        except BaseException as error:  # noqa: BLE001 - it is raised to the caller of this job only
            job.error = _unexpected(error)


def _refuse_all(jobs: Iterable[_Job], reason: str) -> None:
    refused = list(jobs)
    for job in refused:
        job.error = LogUnavailable(reason)
    _deliver(refused)


def _unexpected(error: BaseException) -> LogUnavailable:
    logger.error("an operation of the log failed with an unexpected error", exc_info=error)
    return _caused_by(error, f"an operation of the log failed unexpectedly ({_name(error)})")


def _caused_by(error: BaseException, message: str) -> LogUnavailable:
    failure = LogUnavailable(message)
    failure.__cause__ = error
    return failure


def _name(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


# A worker that several owners share: the first one starts it, the last one stops it.


class SharedWorker(Generic[Connection]):
    """Starts and stops a `Worker` for its owners.

    `name` is the name of the log in messages. `on_end` is called in the worker's thread when that
    ends, `on_stopped` after it has ended and before another one starts.
    """

    __slots__ = ("_database", "_lock", "_name", "_on_end", "_on_stopped", "_owners", "_worker")

    def __init__(
        self,
        name: str,
        database: Database[Connection],
        *,
        on_end: Callable[[], None],
        on_stopped: Callable[[], None],
    ) -> None:
        self._name = name
        self._database = database
        self._on_end = on_end
        self._on_stopped = on_stopped
        self._owners: set[str] = set()
        self._lock = threading.Lock()  # held while the worker starts or stops
        self._worker: Worker[Connection] | None = None

    def start(self, owner: str) -> None:
        """Start the worker for its first owner, or again if its thread has ended. It may block.

        Raises:
            LogUnavailable: the database cannot be opened.
        """
        with self._lock:
            if self._worker is not None and self._worker.refusal is not None:
                self._stop()
            if self._worker is None:
                worker = Worker(self._database, on_end=self._on_end)
                worker.start()
                self._worker = worker
            self._owners.add(owner)

    def stop(self, owner: str) -> None:
        """Stop the worker if this was its last owner. It may block."""
        with self._lock:
            self._owners.discard(owner)
            if not self._owners:
                self._stop()

    def check(self) -> None:
        """Check that the worker is running.

        Raises:
            LogUnavailable: it is not.
        """
        worker = self._worker
        if worker is None:
            raise self._not_started()
        if worker.refusal is not None:
            raise LogUnavailable(worker.refusal)

    def submit(
        self, run: Callable[[Connection], T], after: Callable[[T], None] | None = None
    ) -> "asyncio.Future[T]":
        """Run a job in the worker, see `Worker.submit`.

        Raises:
            LogUnavailable: the worker is not running.
        """
        worker = self._worker
        if worker is None:
            raise self._not_started()
        return worker.submit(run, after)

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()
        self._on_stopped()

    def _not_started(self) -> LogUnavailable:
        return LogUnavailable(f"the log {self._name} has not been started")
