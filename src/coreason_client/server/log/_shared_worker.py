"""A worker that several owners share: the first one starts it, the last one stops it."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ..errors import LogUnavailable
from ._worker import Database, Worker

__all__ = ["SharedWorker"]

T = TypeVar("T")
Connection = TypeVar("Connection", bound=sqlite3.Connection)


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
