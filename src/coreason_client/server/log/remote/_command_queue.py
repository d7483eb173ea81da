"""A queue of commands to the store: commands that wait at the same time share a round trip."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Protocol

from .._worker import BatchDelay
from ._clocks import Mark, RunClock

BATCH_DELAY = 0.002
"""Seconds for which a batch collects commands, while they arrive independently of each other."""


class QueueStopped(Exception):
    """The log was stopped before the command got its reply."""


class PatienceExceeded(Exception):
    """The store did not answer, or answered with transient errors, for `patience` seconds.

    `sent` is False if the command was still in the queue. `blocked` is the number of seconds in
    which this process itself did not run; they do not count. `error` is the latest transient
    error, None if there was none.
    """

    def __init__(self, *, sent: bool, blocked: float, error: Exception | None) -> None:
        super().__init__()
        self.sent = sent
        self.blocked = blocked
        self.error = error


class Job:
    """A command and the future of its reply."""

    __slots__ = ("command", "future", "sent", "since")

    def __init__(self, command: Sequence[Any], future: "asyncio.Future[Any]", since: Mark) -> None:
        self.command = command
        self.future = future
        self.since = since  # the first attempt to send the command
        self.sent = False

    def done(self) -> bool:
        """Return True if it needs no reply, or none any more."""
        return self.future.done()

    def finish(self, reply: Any) -> None:
        """Handle the reply, which may be an error."""
        if isinstance(reply, Exception):
            self.future.set_exception(reply)
        else:
            self.future.set_result(reply)


class Health:
    """The last activity of the store on the connections of a queue, and the latest error since.

    `is_transient` returns True for an error after which a retry may succeed.
    """

    __slots__ = ("clock", "error", "is_transient", "last_activity")

    def __init__(self, clock: RunClock, is_transient: Callable[[Exception], bool]) -> None:
        self.clock = clock
        self.is_transient = is_transient
        self.last_activity = clock.now
        self.error: Exception | None = None


class Link(Protocol):
    """One connection of a queue. It calls back when it becomes idle."""

    def jobs(self) -> Sequence[Job]:
        """Return the jobs without a result; none if the link is idle."""

    def send(self, jobs: Sequence[Job]) -> None:
        """Send a batch and give each job its reply."""

    def check_timeouts(self) -> None:
        """Close a connection without activity for too long."""

    async def stop(self) -> None:
        """Fail the running jobs and close the connection."""


MakeLink = Callable[[Health, Callable[[], None]], Link]


class CommandQueue:
    """Sends commands in batches, each on one of a few connections.

    An idle connection sends a command at once. Commands wait while all connections are busy, and
    for the short time of a `BatchDelay`. After a batch of several commands, the next one waits for
    the other callers that the replies have woken. If a caller is cancelled, its job stays on the
    connection until its reply has been read.

    A command times out only if there was no activity of the store on this queue for `patience`
    seconds since its submission. So the time in which it waits for other commands, while the store
    works, does not count.
    """

    __slots__ = (
        "_batch_delay",
        "_clock",
        "_health",
        "_links",
        "_loop",
        "_max_commands",
        "_on_busy",
        "_patience",
        "_queue",
        "_shared",
        "_stopped",
        "_timer",
    )

    def __init__(
        self,
        make_links: Sequence[MakeLink],
        clock: RunClock,
        *,
        is_transient: Callable[[Exception], bool],
        max_commands: int,
        patience: float,
        on_busy: Callable[[], None],
        batch_delay: float = BATCH_DELAY,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._health = Health(clock, is_transient)
        self._links = [make(self._health, self._became_idle) for make in make_links]
        self._max_commands = max_commands
        self._patience = patience
        self._on_busy = on_busy
        self._queue: deque[Job] = deque()
        self._batch_delay = BatchDelay(batch_delay)
        self._timer: asyncio.Handle | None = None
        self._shared = False  # the last batch had several commands
        self._stopped = False

    @property
    def busy(self) -> bool:
        """True while a command has no reply."""
        return bool(self._queue) or any(link.jobs() for link in self._links)

    def submit(self, command: Sequence[Any], since: Mark) -> "asyncio.Future[Any]":
        """Send a command; the future gets its reply or its error.

        `since` is the time of the first attempt to send the command, by the clock of the queue.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self.submit_job(Job(command, future, since))
        return future

    def submit_job(self, job: Job) -> None:
        """Send the command of a job."""
        if self._stopped:
            fail(job, QueueStopped())
            return
        self._queue.append(job)
        self._on_busy()
        self._send_waiting()

    def check_timeouts(self) -> None:
        """Close connections without activity, and fail the commands that have timed out."""
        for link in self._links:
            link.check_timeouts()
        if not self._clock.passed(self._health.last_activity, self._patience):
            return
        waiting = [job for link in self._links for job in link.jobs()]
        for job in (*waiting, *self._queue):
            if self._clock.passed(job.since.now, self._patience):
                blocked = self._clock.blocked - job.since.blocked
                error = self._health.error
                fail(job, PatienceExceeded(sent=job.sent, blocked=blocked, error=error))
        while self._queue and self._queue[0].done():
            self._queue.popleft()

    async def stop(self) -> None:
        """Fail all commands and close the connections; later commands fail too."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for job in self._queue:
            fail(job, QueueStopped())
        self._queue.clear()
        for link in self._links:
            await link.stop()

    def _send_waiting(self, *, waited: bool = False) -> None:
        """Send the waiting commands on the idle connections."""
        while self._queue and (link := self._idle_link()) is not None:
            if not waited and self._should_wait():
                return
            waited = False
            batch = self._take_batch()
            if batch:
                link.send(batch)

    def _idle_link(self) -> Link | None:
        for link in self._links:
            if not link.jobs():
                return link
        return None

    def _should_wait(self) -> bool:
        """Return True if the next batch should wait for more commands; a timer then sends it."""
        if len(self._queue) >= self._max_commands or self._max_commands == 1:
            return False
        if self._timer is not None:
            return True
        if delay := self._batch_delay.remaining(monotonic()):
            self._timer = self._loop.call_later(delay, self._stop_waiting)
        elif self._shared:
            self._timer = self._loop.call_soon(self._stop_waiting)
        return self._timer is not None

    def _stop_waiting(self) -> None:
        self._timer = None
        self._send_waiting(waited=True)

    def _became_idle(self) -> None:
        """Handle a connection that has become idle."""
        self._batch_delay.batch_finished(more_waiting=bool(self._queue))
        self._send_waiting()

    def _take_batch(self) -> list[Job]:
        batch: list[Job] = []
        while self._queue and len(batch) < self._max_commands:
            job = self._queue.popleft()
            if not job.done():  # otherwise its caller was cancelled or it timed out
                job.sent = True
                batch.append(job)
        self._shared = len(batch) > 1
        self._batch_delay.batch_started(monotonic())
        return batch


def settle(job: Job, reply: Any, health: Health) -> None:
    """Give a job its reply, which may be an error, and record the activity of the store."""
    if isinstance(reply, Exception) and health.is_transient(reply):
        health.error = reply
    else:
        health.last_activity, health.error = health.clock.now, None
    if not job.done():
        job.finish(reply)


def fail(job: Job, error: Exception) -> None:
    """Give a job an error."""
    if not job.done():
        job.finish(error)


def settle_all(jobs: Iterable[Job], error: Exception, health: Health) -> None:
    """Fail all jobs of a connection with its error."""
    for job in jobs:
        settle(job, error, health)
