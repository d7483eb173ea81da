"""The life of an application on one event loop: start, upkeep, drain, stop."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from uuid import UUID

from .._options import Options
from ..errors import LogError, LogUnavailable
from ..log.base import Claim, StreamLog
from ..observe._log_lines import drained, draining
from ..observe._metrics import Metrics
from ..observe._spans import Tracing
from ._agent import Runner
from ._background import Background
from ._conversation import dump_question
from ._exit_watch import watch_exit
from ._lease_rescue import LeaseRescue, renew_elsewhere
from ._orphans import Orphans, UnwrittenEnd
from ._producers import PRODUCER_LOST, SERVER_STOPPED, Producer, Producers
from ._reader_wake import ReaderWake
from ._upkeep import Upkeep
from ._watchdog import watch_loop

__all__ = ["Runtime"]

logger = logging.getLogger("coreason_client.server")

_RECONNECT_AFTER_MS = (500, 2000)


class Runtime:
    """What runs while an application serves; one for each time that it is started."""

    def __init__(
        self,
        runner: Runner,
        log: StreamLog,
        options: Options,
        owner: str,
        metrics: Metrics,
        tracing: Tracing,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.log = log
        self.options = options
        self.producers = Producers(runner, log, options, metrics, tracing, self._keep_unwritten_end)
        self.orphans = Orphans(log, owner, metrics)
        self.keeper = Upkeep(log, options, self.producers, self.orphans)
        metrics.watch(lambda: len(self.producers), lambda: self.producers.readers)
        self.closing = False
        self.drained = False  # every stream of this process has ended, after `closing`
        self.stopped = False
        self.owner = owner
        self._jitter = jitter
        self._started_at = time.monotonic()
        self._background = Background()
        self._reader_wake = ReaderWake(log)
        self._starting: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started_at

    def readers_leave(self, *, came_late: bool) -> bool:
        """Return True if readers should leave now and come back to another process.

        Where no other process can serve them, they stay until their streams have ended. A reader
        that came during the drain was sent here once more: it stays until the drain is over.
        """
        if not self.closing:
            return False
        return self.stopped or (self.log.shared and (self.drained or not came_late))

    def reconnect_ms(self) -> int:
        """For how long a reader should stay away, spread so that not all come back at once."""
        least, most = _RECONNECT_AFTER_MS
        return round(least + (most - least) * self._jitter())

    async def ready(self) -> None:
        """Start, once; whoever comes meanwhile waits for the same start."""
        if self._starting is None:
            self._starting = self.loop.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        await self.log.start(self.owner)
        if not self.log.shared:
            # With a shared one, leases may have run out because the store was away: the others
            # get the time until the first upkeep to renew theirs.
            await self._close_lost()
        self._background.run(self._keep())
        if (watcher := watch_exit(self.begin_shutdown)) is not None:
            self._background.watch(watcher)
        self._background.at_stop(watch_loop(self._rescue()))

    async def _close_lost(self) -> None:
        try:
            await self.orphans.close_lost()
        except LogError:  # a full disk: perhaps there is room once old streams have expired
            await self.log.expire(self.options.retention, self.options.final_retention)
            await self.orphans.close_lost()

    def _rescue(self) -> LeaseRescue | None:
        """Return what renews our leases while the event loop is blocked.

        The leases of a log that is not shared can be taken by nobody but the blocked process.
        """
        if not self.log.shared:
            return None
        return LeaseRescue(
            self.keeper.period,
            lambda: renew_elsewhere(self.log, self.owner, self.producers.held()),
        )

    async def _keep(self) -> None:
        try:
            await self.keeper.run()
        except asyncio.CancelledError:
            if not self.closing:
                # The event loop is shutting down and nobody called `stop`, as in an application
                # that mounts this one and runs no lifespan: leave the log in order all the same.
                await self._leave_in_order()
            raise

    async def upkeep(self) -> None:
        """Do each part of the upkeep that is due, now."""
        await self.keeper.once()

    @property
    def log_works(self) -> bool:
        """Whether every part of the upkeep worked the last time it was tried, and can go on."""
        return not (self.keeper.failing or self._background.died)

    def check_producer(self, stream_id: UUID) -> None:
        """Refuse to wait for packets of a stream that nobody can write to, as far as is known.

        Raises:
            LogUnavailable: its producer was here and could not write, or was elsewhere and may be
                dead, and nobody can end the stream.
        """
        producer = self.producers.get(stream_id)
        if producer is None:
            stranded = stream_id in self.orphans or self.keeper.cannot_claim
        else:
            stranded = producer.broken
        if stranded:
            raise LogUnavailable(
                f"the stream {stream_id} cannot be written or ended at present", stream_id
            )

    def _keep_unwritten_end(self, producer: Producer) -> None:
        """End a stream later, as the log does not take its end now; its readers leave at once."""
        meta, request = producer.meta, producer.request
        held = Claim(meta.stream_id, meta.epoch, meta.last_seq)
        self.orphans.add(
            UnwrittenEnd(
                held,
                lambda: dump_question(meta.principal, request),
                producer.unwritten or PRODUCER_LOST,
                producer.meter,
            )
        )
        self._reader_wake.soon()

    # The end.

    def begin_shutdown(self) -> None:
        """Refuse new requests, tell readers to come back later and let producers drain."""
        if not self.closing:
            self.closing = True
            self._draining = self.loop.create_task(self._first_drain())
            self.log.wake_readers()

    async def drain(self) -> None:
        """Begin the shutdown, wait until every stream has ended, and send the readers away."""
        self.begin_shutdown()
        if self._draining is not None:
            await asyncio.shield(self._draining)
        self.drained = True
        self.log.wake_readers()

    async def _first_drain(self) -> None:
        seconds, began = self.options.drain_timeout, self.loop.time()
        draining(len(self.producers), seconds + self.options.cancel_grace)
        await self._drain(seconds)
        drained(self.loop.time() - began)

    async def _drain(self, seconds: float) -> None:
        await self.producers.wait(seconds)
        while len(self.producers):  # one may have been let in while these were ending
            self.producers.stop_all(SERVER_STOPPED)
            await self.producers.wait(None)

    async def stop(self) -> None:
        """Drain, and let go of the log."""
        self.begin_shutdown()
        if self._draining is not None:
            await self._draining
        await self._drain(0)
        await self._release()

    async def _leave_in_order(self) -> None:
        self.closing = True
        await self._drain(0)
        await self._release()

    async def _release(self) -> None:
        self.stopped = True
        self.log.wake_readers()
        await self._background.stop()
        await self.log.stop(self.owner)
