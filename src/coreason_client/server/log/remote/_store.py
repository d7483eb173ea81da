"""The store of a log on a server: retries, background tasks, and whether it is still the same.

An operation times out only if the store was silent for `patience` seconds, or answered for so long
with transient errors. While a command has no reply, one timer measures that; see `RunClock` for how
it counts, and `CommandQueue` for which commands time out.

A replica that was promoted, and a server that was restarted, may show an earlier state of the
store. When one connection finds another server than before, or a server that is no longer a
primary, all others are opened again: they would read what a lagging replica still shows.
"""

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, ClassVar, TypeVar

from ...._retry import Backoff
from ..._outage import Outage
from ._clocks import Mark, RunClock
from ._command_queue import BATCH_DELAY, CommandQueue, Job, MakeLink, PatienceExceeded

logger = logging.getLogger("coreason_client.server")

T = TypeVar("T")

_BACKOFF = Backoff(first=0.02, longest=1.0)
# The reply timeout as a share of the patience. It is shorter, so that there is still time for a new
# connection after one that was lost unnoticed.
_REPLY_TIMEOUT_SHARE = 0.4
_TICKS_PER_REPLY_TIMEOUT = 16
_CANCEL_INTERVAL = 0.1  # seconds
_RESTART_DELAY = 0.5  # seconds
_SLICES = 40


class ServerIdentity:
    """The server of one event loop; `generation` changes when connections must be opened again.

    `changes` is how often it was another server than before, or had been restarted; the functions
    `on_another` are called each time. `shown` is its address, without credentials.
    """

    def __init__(self, shown: str, on_another: Sequence[Callable[[], None]] = ()) -> None:
        self.shown = shown
        self.generation = 0
        self.changes = 0
        self._on_another = on_another
        self._loop = asyncio.get_running_loop()
        self._identity: object = None
        self._changed_at: float | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def identity(self) -> object:
        """What tells the server from another one, None if it is not known yet."""
        return self._identity

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when all connections must be opened again."""
        self._listeners.append(on_change)

    def identify(self, identity: object) -> None:
        """Compare the server with the one that was seen before; None means unknown."""
        known, self._identity = self._identity, identity or self._identity
        if identity is None or known in (None, identity):
            return
        self.changes += 1
        self._changed_at = self._loop.time()
        for report in self._on_another:
            report()
        logger.warning(
            "the store %s is another server than before, or was restarted; it may have lost its "
            "latest state",
            self.shown,
        )
        self.demoted()

    def demoted(self) -> None:
        """Open all connections again: the server may no longer be the primary."""
        self.generation += 1
        for on_change in self._listeners:
            on_change()

    def changed_within(self, seconds: float) -> bool:
        """Return True if another server became the primary less than so many seconds ago."""
        return self._changed_at is not None and self._loop.time() - self._changed_at < seconds


class RemoteStore(ABC):
    """Sends commands through queues, and repeats those that fail with a transient error."""

    failures: ClassVar[tuple[type[Exception], ...]]
    """What a command may fail with; every other error is raised to the caller unchanged."""

    passed_on: ClassVar[tuple[type[Exception], ...]] = ()
    """Failures that the caller handles."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._reply_timeout = patience * _REPLY_TIMEOUT_SHARE
        self._loop = asyncio.get_running_loop()
        self._clock = RunClock(self._reply_timeout / _TICKS_PER_REPLY_TIMEOUT)
        self._timer: asyncio.TimerHandle | None = None
        self._recovering: set[asyncio.Future[Any]] = set()
        self._repeating = 0  # commands that are being retried
        self._queues: list[CommandQueue] = []

    @abstractmethod
    def _is_transient(self, error: Exception) -> bool:
        """Return True if a retry may succeed."""

    @abstractmethod
    def _final_error(self, failure: Exception) -> Exception:
        """Return the error for the caller, after a failure that is not retried."""

    @abstractmethod
    def _is_timeout(self, error: Exception) -> bool:
        """Return True if an attempt has waited for the whole reply timeout."""

    def _make_queue(
        self, links: Sequence[MakeLink], max_commands: int, batch_delay: float = BATCH_DELAY
    ) -> CommandQueue:
        queue = CommandQueue(
            links,
            self._clock,
            is_transient=self._is_transient,
            max_commands=max_commands,
            patience=self._patience,
            on_busy=self._start_ticking,
            batch_delay=batch_delay,
        )
        self._queues.append(queue)
        return queue

    async def close(self) -> None:
        """Close all connections."""
        for queue in self._queues:
            await queue.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _begin(
        self,
        queue: CommandQueue,
        command: Sequence[Any],
        read: Callable[[Any], T],
        recover: Callable[[Mark, Exception], Awaitable[Any]] | None = None,
    ) -> "asyncio.Future[T]":
        """Run a command; the future gets `read(reply)`.

        It creates a task only after a failure, which makes it cheaper. That task is `recover`.
        """
        since = self._clock.mark()
        again = recover or partial(self._recover, queue, command)
        result: asyncio.Future[T] = self._loop.create_future()

        def deliver(reply: Any) -> None:
            if isinstance(reply, self.failures) and not result.done():
                task = asyncio.ensure_future(again(since, reply))
                self._recovering.add(task)
                task.add_done_callback(self._recovering.discard)
                task.add_done_callback(repeated)
            else:
                settle(reply)

        def repeated(task: "asyncio.Future[Any]") -> None:
            if task.cancelled():
                result.cancel()
            else:
                settle(task.exception() or task.result())

        def settle(reply: Any) -> None:
            if result.done():
                return
            try:
                if isinstance(reply, Exception):
                    raise reply
                result.set_result(read(reply))
            except Exception as error:  # noqa: BLE001 - it is raised to the caller
                result.set_exception(error)

        queue.submit_job(_Begun(command, result, since, deliver))
        return result

    async def _run(self, queue: CommandQueue, command: Sequence[Any]) -> Any:
        since = self._clock.mark()
        try:
            return await queue.submit(command, since)
        except self.passed_on:
            raise
        except self.failures as error:
            failure = error
        return await self._recover(queue, command, since, failure)

    async def _recover(
        self, queue: CommandQueue, command: Sequence[Any], since: Mark, failure: Exception
    ) -> Any:
        """Send a command again until it succeeds or `patience` is exceeded.

        Its first attempt has failed. The time is checked only after a failed attempt, so the time
        in the queue does not count.
        """
        self._repeating += 1
        try:
            self._start_ticking()
            first = self._clock.now
            if self._is_timeout(failure):
                first -= self._reply_timeout  # the first attempt has waited for so long
            for failures in count(1):
                self._raise_if_final(failure, since, first)
                await asyncio.sleep(_BACKOFF.delay(failures, random.random))
                try:
                    return await queue.submit(command, since)
                except self.passed_on:
                    raise
                except self.failures as error:
                    failure = error
        finally:
            self._repeating -= 1

    def _raise_if_final(self, failure: Exception, since: Mark, first: float) -> None:
        """Raise the error for the caller if another attempt is pointless."""
        if not self._is_transient(failure):
            raise self._final_error(failure) from None
        if self._clock.passed(first, self._patience):
            blocked = self._clock.blocked - since.blocked
            exceeded = PatienceExceeded(sent=True, blocked=blocked, error=failure)
            raise self._final_error(exceeded) from None

    def _start_ticking(self) -> None:
        if self._timer is None:
            self._clock.resume(self._loop.time())
            self._timer = self._loop.call_later(self._clock.interval, self._tick)

    def _tick(self) -> None:
        try:
            self._clock.tick(self._loop.time())
            for queue in self._queues:
                queue.check_timeouts()
        finally:
            self._timer = None
            if self._repeating or any(queue.busy for queue in self._queues):
                self._timer = self._loop.call_later(self._clock.interval, self._tick)


class _Begun(Job):
    """A job whose reply is delivered as soon as it is here; see `_begin`.

    The callback of a future would take another turn of the event loop. The command is sent even if
    its caller was cancelled.
    """

    __slots__ = ("_deliver", "_done")

    def __init__(
        self,
        command: Sequence[Any],
        result: "asyncio.Future[Any]",
        since: Mark,
        deliver: Callable[[Any], None],
    ) -> None:
        super().__init__(command, result, since)
        self._deliver = deliver
        self._done = False

    def done(self) -> bool:
        return self._done

    def finish(self, reply: Any) -> None:
        self._done = True
        self._deliver(reply)


async def finished_within(task: "asyncio.Future[Any]", seconds: float) -> bool:
    """Wait for a task at most for so long; return True if it has ended."""
    # In slices: if the process is suspended meanwhile, only one of them is lost.
    for _ in range(_SLICES):
        if (await asyncio.wait({task}, timeout=seconds / _SLICES))[0]:
            return True
    return False


async def run_forever(work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run `work` until cancelled; start it again if it ends or raises an error.

    Errors are logged at most once a minute.
    """
    outage = Outage()
    while True:
        try:
            await work()
        except Exception:
            if outage.failed(asyncio.get_running_loop().time()):
                logger.exception("%s failed with an unexpected error and is restarted", name)
        await asyncio.sleep(_RESTART_DELAY)


async def cancel_all(tasks: "Iterable[asyncio.Task[None]]") -> None:
    """Cancel tasks and wait until they have ended.

    A cancellation can get lost in the client library while it connects or times out, so it is
    repeated until the task has ended.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_CANCEL_INTERVAL)
