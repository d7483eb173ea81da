"""Those that wait for changes of tasks, on any event loop of this process."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TypeAlias
from uuid import UUID

__all__ = ["TaskWaiters"]

_Change: TypeAlias = "asyncio.Future[None]"


class TaskWaiters:
    """The waiters by task."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[UUID, set[_Change]] = {}

    @contextmanager
    def registered(self, task_id: UUID) -> Iterator[_Change]:
        """Register a waiter. The caller checks the task afterwards, so it misses no change."""
        change: _Change = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.setdefault(task_id, set()).add(change)
        try:
            yield change
        finally:
            self._forget(task_id, change)

    async def wait_for(self, change: _Change, seconds: float) -> None:
        """Wait for a change, at most for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await change

    def wake(self, task_id: UUID) -> None:
        """Wake all that wait for a task. May be called in any thread."""
        with self._lock:
            woken = list(self._waiting.get(task_id, ()))
        for change in woken:
            with suppress(RuntimeError):  # its event loop is closed
                change.get_loop().call_soon_threadsafe(_settle, change)

    def _forget(self, task_id: UUID, change: _Change) -> None:
        with self._lock:
            waiting = self._waiting[task_id]
            waiting.discard(change)
            if not waiting:
                del self._waiting[task_id]


def _settle(change: _Change) -> None:
    if not change.done():
        change.set_result(None)
