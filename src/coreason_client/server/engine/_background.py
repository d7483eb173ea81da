"""Background tasks of a server."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

__all__ = ["Background"]

logger = logging.getLogger("coreason_client.server")


class Background:
    """Tasks that run until they are stopped; `died` is True if one ended with an exception.

    `services` are tasks that `start` starts.
    """

    __slots__ = ("_at_drain", "_at_stop", "_before_stop", "_services", "_tasks", "died", "started")

    def __init__(self, services: Iterable[Callable[[], Coroutine[Any, Any, None]]] = ()) -> None:
        self.died = False
        self.started = False
        self._services = list(services)
        self._tasks: list[asyncio.Task[None]] = []
        self._before_stop: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._at_drain: list[Callable[[], None]] = []
        self._at_stop: list[Callable[[], None]] = []

    def start(self) -> None:
        """Start the services."""
        for service in self._services:
            self.run(service())
        self.started = True

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        self.watch(asyncio.get_running_loop().create_task(work))

    def watch(self, task: "asyncio.Task[None]") -> None:
        """Take over a running task."""
        self._tasks.append(task)
        task.add_done_callback(self._report)

    def at_drain(self, begin: Callable[[], None]) -> None:
        """Register a function that is called when the drain begins."""
        self._at_drain.append(begin)

    def drain(self) -> None:
        """Call the functions of `at_drain`."""
        for begin in self._at_drain:
            begin()

    def before_stop(self, finish: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Register what is awaited before the tasks are cancelled."""
        self._before_stop.append(finish)

    def at_stop(self, undo: Callable[[], None]) -> None:
        """Register a function that is called after the tasks have ended."""
        self._at_stop.append(undo)

    async def stop(self) -> None:
        """Cancel all tasks but the calling one, and wait until they have ended."""
        for finish in self._before_stop:
            await finish()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
                await asyncio.wait({task})
        for undo in self._at_stop:
            undo()

    def _report(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.died = True
            logger.error("a background task of the server failed", exc_info=error)
