"""Queues of commands: commands that wait at the same time share a round trip."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Protocol

from .._gather import Gather
from ._errors import LaneStopped, StoreSilent, is_passing
from ._run_clock import Mark, RunClock
from ._wire import Command

__all__ = ["Health", "Job", "Lane", "Link", "MakeLink", "fail", "settle", "settle_all"]


class Job:
    """A command and the future of its reply."""

    __slots__ = ("command", "future", "sent", "since")

    def __init__(self, command: Command, future: "asyncio.Future[Any]", since: Mark) -> None:
        self.command = command
        self.future = future
        self.since = since  # when the command was submitted for the first time
        self.sent = False


class Health:
    """The last sign of life of the store on the connections of a lane, and the error since."""

    __slots__ = ("alive", "clock", "error")

    def __init__(self, clock: RunClock) -> None:
        self.clock = clock
        self.alive = clock.now
        self.error: Exception | None = None


class Link(Protocol):
    """One connection of a lane. It calls back when it is idle again."""

    def jobs(self) -> Sequence[Job]:
        """Return the jobs that it has not settled; none when it is idle."""

    def send(self, jobs: Sequence[Job]) -> None:
        """Send a batch and settle each job with its reply."""

    def judge(self) -> None:
        """Give up a connection that has been silent for too long."""

    async def stop(self) -> None:
        """Break off what is under way, and close the connection."""


MakeLink = Callable[[Health, Callable[[], None]], Link]


class Lane:
    """Sends commands in batches, each on one of a few connections.

    An idle connection takes a command at once; while all are busy, and for a moment where `Gather`
    finds that more will come, the commands gather. A caller that is cancelled leaves its job
    behind, which takes its reply off the connection as if somebody waited for it.

    A command fails for lack of time only when the store has been silent for `patience`: from its
    submission, or from the last sign of life on this lane if that was later. So the time in which
    it waits behind others, while the store works, is not counted.
    """

    __slots__ = (
        "_clock",
        "_gather",
        "_health",
        "_links",
        "_loop",
        "_most_commands",
        "_on_busy",
        "_patience",
        "_queue",
        "_stopped",
        "_timer",
    )

    def __init__(
        self,
        make_links: Sequence[MakeLink],
        clock: RunClock,
        *,
        most_commands: int,
        patience: float,
        on_busy: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._health = Health(clock)
        self._links = [make(self._health, self._freed) for make in make_links]
        self._most_commands = most_commands
        self._patience = patience
        self._on_busy = on_busy
        self._queue: deque[Job] = deque()
        self._gather = Gather()
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether a command has no reply yet."""
        return bool(self._queue) or any(link.jobs() for link in self._links)

    def submit(self, command: Command, since: Mark) -> "asyncio.Future[Any]":
        """Send a command; the future gets its reply, or the error that came instead.

        `since` is when the command was submitted for the first time, by the clock of the lane.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        job = Job(command, future, since)
        if self._stopped:
            fail(job, LaneStopped())
            return future
        self._queue.append(job)
        self._on_busy()
        self._pump()
        return future

    def judge(self) -> None:
        """Give up silent connections, and the commands for which the store was silent too long."""
        for link in self._links:
            link.judge()
        if not self._clock.passed(self._health.alive, self._patience):
            return
        waiting = [job for link in self._links for job in link.jobs()]
        for job in (*waiting, *self._queue):
            if self._clock.passed(job.since.now, self._patience):
                blocked = self._clock.blocked - job.since.blocked
                error = self._health.error
                fail(job, StoreSilent(sent=job.sent, blocked=blocked, error=error))
        while self._queue and self._queue[0].future.done():
            self._queue.popleft()

    async def stop(self) -> None:
        """Drop what waits, break off what is under way, and take nothing any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for job in self._queue:
            fail(job, LaneStopped())
        self._queue.clear()
        for link in self._links:
            await link.stop()

    def _pump(self) -> None:
        """Let idle connections take what waits."""
        while self._queue and (link := self._idle()) is not None and not self._gathers():
            batch = self._take()
            if batch:
                link.send(batch)

    def _idle(self) -> Link | None:
        for link in self._links:
            if not link.jobs():
                return link
        return None

    def _gathers(self) -> bool:
        """Return True while more commands may join the next batch; then it is sent later."""
        if len(self._queue) >= self._most_commands or self._most_commands == 1:
            return False
        if self._timer is not None:
            return True
        if not (early := self._gather.early(monotonic())):
            return False
        self._timer = self._loop.call_later(early, self._gathered)
        return True

    def _gathered(self) -> None:
        self._timer = None
        self._pump()

    def _freed(self) -> None:
        """Note that a connection is idle again."""
        self._gather.done(waiting=bool(self._queue))
        self._pump()

    def _take(self) -> list[Job]:
        batch: list[Job] = []
        while self._queue and len(batch) < self._most_commands:
            job = self._queue.popleft()
            if not job.future.done():  # otherwise whoever asked has gone
                job.sent = True
                batch.append(job)
        self._gather.begun(monotonic())
        return batch


def settle(job: Job, reply: Any, health: Health) -> None:
    """Give a job its reply, which may be an error, and record what it says about the store."""
    if isinstance(reply, Exception):
        if is_passing(reply):
            health.error = reply
        else:
            health.alive, health.error = health.clock.now, None
        fail(job, reply)
        return
    health.alive, health.error = health.clock.now, None
    if not job.future.done():
        job.future.set_result(reply)


def fail(job: Job, error: Exception) -> None:
    """Give a job an error."""
    if not job.future.done():
        job.future.set_exception(error)


def settle_all(jobs: Iterable[Job], error: Exception, health: Health) -> None:
    """Give jobs the error of their connection."""
    for job in jobs:
        settle(job, error, health)
