"""The upkeep of a log while an application serves: leases, orphaned streams, old streams.

The parts are independent. One that fails is logged and retried with the next upkeep, and does not
prevent the others: a full store cannot renew leases until old streams have expired, so no failure
may prevent the expiry. The leases of this process are renewed during every slow part.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from .._options import Options
from .._outage import Outage
from ..errors import LogError
from ..log.base import LeaseState, StreamLog
from ._limits import Quotas
from ._orphans import Orphans
from ._packets import CANCELLED
from ._producers import Producers

T = TypeVar("T")

# Background tasks of a server.


class Background:
    """Tasks that run until they are stopped; `died` is True if one ended with an exception.

    `services` are tasks that `start` starts.
    """

    def __init__(self, services: Iterable[Callable[[], Coroutine[Any, Any, None]]] = ()) -> None:
        self.died = False
        self.started = False
        self._services = list(services)
        self._tasks: list[asyncio.Task[None]] = []
        self._completing: set[asyncio.Task[Any]] = set()
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

    def complete(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start short work that a cancelled caller must not interrupt; `stop` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._completing.add(task)
        task.add_done_callback(self._completing.discard)
        return task

    async def uninterrupted(self, work: Coroutine[Any, Any, T]) -> T:
        """Return a result; the work goes on if the caller is cancelled."""
        return await asyncio.shield(self.complete(work))

    async def completed(self) -> None:
        """Wait until the work of `complete` is done."""
        while self._completing:
            await asyncio.wait(self._completing)

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
        await self.completed()
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


# Wakes all waiting readers when streams fail, and spreads their reconnections.

_INTERVAL = 1.0  # seconds
_RECONNECT_AFTER_MS = (500, 2000)


class ReaderWake:
    """Wakes all readers of a log, at most once a second.

    A woken reader whose stream goes on sends a heartbeat, so this must not happen often.
    """

    __slots__ = ("_jitter", "_log", "_loop", "_timer", "_woken_at")

    def __init__(self, log: StreamLog, jitter: Callable[[], float] = random.random) -> None:
        self._log = log
        self._jitter = jitter
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._woken_at = 0.0

    def schedule(self) -> None:
        """Wake the readers as soon as the rate allows; calls until then are combined."""
        if self._timer is None:
            wait = self._woken_at + _INTERVAL - self._loop.time()
            self._timer = self._loop.call_later(max(wait, 0.0), self._wake)

    def reconnect_ms(self) -> int:
        """Return a random delay for a reader, so that not all reconnect at the same time."""
        least, most = _RECONNECT_AFTER_MS
        return round(least + (most - least) * self._jitter())

    def _wake(self) -> None:
        self._timer, self._woken_at = None, self._loop.time()
        self._log.wake_readers()


logger = logging.getLogger("coreason_client.server")

# A lease survives two missed renewals.
RENEWALS_PER_LEASE: Final = 10 / 3
_EXPIRE_EVERY = 10.0
# Periods after which an upkeep is late, because this process or the store was slow.
_LATE_PERIODS = 1.5
_MAX_POSTPONED = 2
# Seconds of failing claims after which readers stop waiting for producers of other processes.
_CLAIMS_FAILED = 15.0

_PARTS = _ALL, _RENEW, _EXPIRE, _ENDS, _CLAIM, _QUOTAS = (
    "the upkeep of the log",
    "renewing leases",
    "dropping expired streams",
    "writing the ends of streams",
    "ending streams without a producer",
    "sharing limits with other processes",
)


class Upkeep:
    """Renews the leases of this process and cleans up the log."""

    def __init__(
        self,
        log: StreamLog,
        options: Options,
        producers: Producers,
        orphans: Orphans,
        quotas: Quotas,
    ) -> None:
        self._log = log
        self._options = options
        self._producers = producers
        self._orphans = orphans
        self._quotas = quotas
        self._loop = asyncio.get_running_loop()
        self._outages = {part: Outage() for part in _PARTS}
        self._expired_at = 0.0
        self._renewed_at = self._loop.time()  # the last attempt
        self._longest_gap = 0.0  # between two renewals during this upkeep
        self._postponed = 0  # consecutive times
        self.on_expire: Callable[[], Coroutine[Any, Any, None]] | None = None
        """Drops what a protocol keeps beside the streams."""
        self.postpones_claims = True
        """True while streams of other processes must not be claimed."""

    @property
    def failing(self) -> tuple[str, ...]:
        """The parts whose last attempt failed."""
        return tuple(part for part, outage in self._outages.items() if outage.since is not None)

    @property
    def cannot_claim(self) -> bool:
        """True if streams of dead producers could not be ended for some time.

        A reader then cannot know whether the producer of its stream, in another process, is alive.
        """
        return self._outages[_CLAIM].lasted(self._loop.time()) >= _CLAIMS_FAILED

    async def run(self) -> None:
        """Do the upkeep at intervals, until cancelled."""
        while True:
            await asyncio.sleep(self._until_next())
            await self._try(_ALL, self.once())

    async def once(self) -> None:
        """Do each part of the upkeep that is due."""
        last, renewing_failed = self._renewed_at, _RENEW in self.failing
        self._longest_gap = 0.0
        expired = False
        if self._loop.time() - self._expired_at >= _EXPIRE_EVERY:
            self._expired_at = self._loop.time()
            # First, because it frees space in a full store for everything else.
            expired = await self._while_renewing(_EXPIRE, self._expire())
        if self._renewed_at == last or (expired and _RENEW in self.failing):
            await self._renew()
        await self._while_renewing(_ENDS, self._orphans.write_ends())
        recovered = renewing_failed and _RENEW not in self.failing
        self.postpones_claims = self._is_late(recovered=recovered)
        if not self.postpones_claims:
            await self._while_renewing(_CLAIM, self._orphans.close_lost())
        await self._while_renewing(_QUOTAS, self._quotas.renew())

    async def _expire(self) -> None:
        await self._log.expire(self._options.retention, self._options.final_retention)
        if self.on_expire is not None:
            await self.on_expire()

    async def _try(self, part: str, work: Coroutine[None, None, None]) -> bool:
        """Do a part of the upkeep; return True if it worked."""
        outage = self._outages[part]
        try:
            await work
        except Exception as error:  # a bug in one part must not stop the others
            if outage.failed(self._loop.time()):
                expected = isinstance(error, LogError)
                logger.warning(
                    "%s failed and will be retried: %s",
                    *(part, error if expected else repr(error)),
                    exc_info=None if expected else error,
                )
            return False
        seconds = outage.worked(self._loop.time())
        if seconds is not None:
            logger.warning("%s works again, after %.0f s", part, seconds)
        return True

    async def _while_renewing(self, part: str, work: Coroutine[None, None, None]) -> bool:
        """Do a part that may take longer than a lease, and renew our leases meanwhile."""
        task = self._loop.create_task(self._try(part, work))
        try:
            while not task.done():
                due = self._renewed_at + self.period - self._loop.time()
                await asyncio.wait({task}, timeout=max(due, 0.0))
                if not task.done():
                    await self._renew()
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def period(self) -> float:
        """Seconds from one renewal to the next."""
        return self._log.lease / RENEWALS_PER_LEASE

    def _until_next(self) -> float:
        if self._postponed:
            return self.period
        return max(self._renewed_at + self.period - self._loop.time(), self.period / 2)

    def _is_late(self, *, recovered: bool) -> bool:
        """Return True to skip claiming the streams of other processes this time.

        If this process or all processes could not reach the store for a while, the leases of live
        producers may have expired too: they get one period to renew them. The number of skips is
        limited, because orphaned streams must end even on a machine that is always late.
        """
        late = recovered or self._longest_gap > _LATE_PERIODS * self.period
        late = late and self._postponed < _MAX_POSTPONED
        self._postponed = self._postponed + 1 if late else 0
        return late

    async def _renew(self) -> None:
        last, self._renewed_at = self._renewed_at, self._loop.time()
        await self._try(_RENEW, self._renew_leases())
        self._longest_gap = max(self._longest_gap, self._loop.time() - last)

    async def _renew_leases(self) -> None:
        if not (held := self._producers.held_leases()):
            return
        for stream_id, state in (await self._log.renew(held)).items():
            producer = self._producers.get(stream_id)
            # It may have ended meanwhile, or this process has claimed its stream again.
            if producer is None or producer.meta.epoch != held[stream_id]:
                continue
            if state is LeaseState.LOST:
                producer.give_up()
            elif state is LeaseState.CANCEL_REQUESTED:
                producer.stop(CANCELLED)
