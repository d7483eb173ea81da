"""Commands that wait at the same time share a round trip."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

from ._tasks import cancel_all

__all__ = ["Command", "Lane", "LaneStopped"]

Command: TypeAlias = tuple[Any, ...]
Job: TypeAlias = tuple[Command, asyncio.Future[Any]]
Execute: TypeAlias = Callable[[Sequence[Command]], Awaitable[Sequence[Any]]]

# Most of what a small batch costs is not its commands. When several share one, there is more to
# come, and a moment's wait lets it gather. A lone command is never held back.
_SEVERAL = 4
_GATHER = 0.002  # seconds from one batch to the next


class LaneStopped(Exception):
    """The lane was stopped before the command had its reply."""


class Lane:
    """Sends commands in batches, on at most so many connections at once.

    When idle a command goes out at once; while all connections are busy, and for a moment after a
    batch of several, the commands gather. The connections belong to tasks of the lane, so a caller
    that is cancelled never leaves one with an answer that nobody reads.
    """

    __slots__ = (
        "_execute",
        "_most_busy",
        "_most_commands",
        "_not_before",
        "_queue",
        "_waking",
        "_workers",
    )

    def __init__(self, execute: Execute, *, most_busy: int, most_commands: int) -> None:
        self._execute = execute
        self._most_busy = most_busy
        self._most_commands = most_commands
        self._queue: deque[Job] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._not_before = 0.0  # the next batch
        self._waking = False  # a worker has been called and has not looked into the queue yet

    def submit(self, command: Command) -> "asyncio.Future[Any]":
        """Send a command; the future gets its reply, or the error that came instead."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((command, future))
        self._call_worker()
        return future

    async def stop(self) -> None:
        """Drop what waits and break off what is under way."""
        _refuse(self._queue)
        self._queue.clear()
        await cancel_all(self._workers)

    def _call_worker(self) -> None:
        if self._queue and not self._waking and len(self._workers) < self._most_busy:
            self._waking = True
            worker = asyncio.get_running_loop().create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        try:
            while batch := await self._gather():
                self._waking = False
                self._call_worker()
                await self._send(batch)
        finally:
            self._waking = False
            # At once: a command that comes before the callbacks of this task must find its place
            # free.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _gather(self) -> list[Job]:
        """Take the next batch, when it is time for one."""
        loop = asyncio.get_running_loop()
        early = self._not_before - loop.time()
        if early > 0 and 0 < len(self._queue) < self._most_commands:
            await asyncio.sleep(early)
        batch = self._take()
        if len(batch) >= _SEVERAL:
            self._not_before = loop.time() + _GATHER
        return batch

    def _take(self) -> list[Job]:
        batch: list[Job] = []
        while self._queue and len(batch) < self._most_commands:
            job = self._queue.popleft()
            if not job[1].done():  # whoever asked has gone
                batch.append(job)
        return batch

    async def _send(self, batch: list[Job]) -> None:
        try:
            replies = await self._execute([command for command, _ in batch])
        except Exception as error:  # noqa: BLE001 - each caller judges it
            replies = [error] * len(batch)
        except BaseException:
            _refuse(batch)
            raise
        for (_, future), reply in zip(batch, replies, strict=True):
            if future.done():
                continue
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)


def _refuse(jobs: Iterable[Job]) -> None:
    for _, future in jobs:
        if not future.done():
            future.set_exception(LaneStopped())
