"""The runtime of an application on one event loop: start, upkeep, drain, stop."""

import asyncio
import contextvars
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from .._options import Options
from ..errors import LogError, LogUnavailable
from ..log.base import Claim, DurableLog, NewStream, Opened, StreamLog, StreamMeta
from ..log.quotas import quotas_of
from ..observe._log_lines import drained, draining
from ..observe._metrics import Metrics
from ..observe._spans import Tracing
from ._agent import Runner
from ._appender import twice
from ._conversation import dump_question, waiting_request
from ._limits import Quotas
from ._orphans import Orphans, UnwrittenEnd
from ._packets import PRODUCER_LOST, SERVER_STOPPED
from ._producer import Producer
from ._producers import Producers
from ._takeover import Takeover
from ._upkeep import Background, ReaderWake, Upkeep
from ._watchdog import LeaseRescue, renew_in_thread, watch_exit, watch_loop

logger = logging.getLogger("coreason_client.server")


Service: TypeAlias = "Callable[[Runtime], Coroutine[Any, Any, None]]"
"""The background work of a protocol in a runtime, until it is cancelled."""


class Runtime:
    """The running parts of an application; each start makes a new one."""

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
        services: Iterable["Service"] = (),
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.log = log
        self.options = options
        quotas = Quotas(options, quotas_of(log))
        self.producers = Producers(
            *(runner, log, options, owner, metrics, tracing),
            on_unwritten=self._keep_unwritten_end,
            quotas=quotas,
        )
        self.orphans = Orphans(log, owner, metrics, partial(_restart, self))
        self.upkeep = Upkeep(log, options, self.producers, self.orphans, quotas)
        _watch_gauges(self, metrics)
        self.closing = False
        self.drained = False  # closing, and every stream has ended or was handed over
        self.stopped = False
        self.owner = owner
        self._started_at = time.monotonic()
        self.takeover = self._make_takeover(metrics)
        self.background = Background(partial(service, self) for service in services)
        self._reader_wake = ReaderWake(log, jitter)
        self._starting: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None

    def _make_takeover(self, metrics: Metrics) -> Takeover | None:
        """Return the object that restarts durable agents, None if the agent is not durable."""
        options = self.options
        if not options.durable:
            return None
        assert isinstance(self.log, DurableLog)  # noqa: S101 - checked by the application
        return Takeover(
            *(self.log, self.owner, options, self.producers, self.orphans, metrics),
            may_claim=lambda: not (self.closing or self.upkeep.postpones_claims),
        )

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started_at

    def readers_must_leave(self, *, joined_during_drain: bool) -> bool:
        """Return True if a reader must disconnect now and reconnect to another process.

        If the log is not shared, no other process can serve it, so it stays until its stream has
        ended, or was handed over to the next process. A reader that connected during the drain was
        routed here again: it stays until the drain is complete.
        """
        if not self.closing:
            return False
        return self.stopped or self.drained or (self.log.shared and not joined_during_drain)

    def reconnect_ms(self) -> int:
        """Return a random delay for a reader, so that not all reconnect at the same time."""
        return self._reader_wake.reconnect_ms()

    async def ready(self, context: contextvars.Context | None = None) -> None:
        """Start once; concurrent callers wait for the same start.

        Restarted agents run in a copy of `context`.
        """
        if self._starting is None:
            self._starting = self.loop.create_task(self._start(), context=context)
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        await self.log.start(self.owner)
        if not self.log.shared:
            # On a shared log, leases may have expired because the store was unreachable: the
            # other processes have until the first upkeep to renew theirs.
            await self._close_lost()
            self.upkeep.postpones_claims = False
        self.background.run(self._run_upkeep())
        if self.takeover is not None:
            self.background.run(self.takeover.run())
        self.background.start()
        if (watcher := watch_exit(self.begin_shutdown)) is not None:
            self.background.watch(watcher)
        self.background.at_stop(
            watch_loop(self._lease_rescue(), self.producers.metrics.loop_delayed)
        )

    async def _close_lost(self) -> None:
        try:
            await self.orphans.close_lost()
        except LogError:  # a full disk may have space once old streams have expired
            await self.log.expire(self.options.retention, self.options.final_retention)
            await self.orphans.close_lost()

    def _lease_rescue(self) -> LeaseRescue | None:
        """Return the object that renews leases while the event loop is blocked.

        A log that is not shared needs none: no other process can claim its streams.
        """
        if not self.log.shared:
            return None
        return LeaseRescue(
            self.upkeep.period,
            lambda: renew_in_thread(self.log, self.owner, self.producers.held_leases()),
        )

    async def _run_upkeep(self) -> None:
        try:
            await self.upkeep.run()
        except asyncio.CancelledError:
            if not self.closing:
                # The event loop is shutting down and `stop` was not called, as in an application
                # that mounts this one and runs no lifespan. End the streams all the same.
                await self._stop_without_lifespan()
            raise

    @property
    def log_works(self) -> bool:
        """True if every part of the upkeep worked the last time, and the log is not degraded."""
        return not (self.upkeep.failing or self.background.died or self.log.degraded)

    def check_producer(self, stream_id: UUID) -> None:
        """Raise an error if waiting for packets of a stream is probably useless.

        Raises:
            LogUnavailable: its producer in this process cannot write; or it is in another process,
                may be dead, and this process cannot end the stream.
        """
        producer = self.producers.get(stream_id)
        if producer is None:
            unusable = stream_id in self.orphans or self.upkeep.cannot_claim
        else:
            unusable = producer.broken
        if unusable:
            raise LogUnavailable(
                f"the stream {stream_id} cannot be written or ended at the moment", stream_id
            )

    def _keep_unwritten_end(self, producer: Producer) -> None:
        """Keep the end of a stream that the log did not accept; its readers leave at once."""
        meta, request, turns = producer.meta, producer.request, producer._writer.turns
        held = Claim(meta.stream_id, meta.epoch, meta.last_seq)
        self.orphans.add(
            UnwrittenEnd(
                held,
                lambda: dump_question(meta.principal, request, turns.heard.values()),
                producer.unwritten or PRODUCER_LOST,
                producer.meter,
                turns.naming,
            )
        )
        self._reader_wake.schedule()

    # Shutdown.

    def begin_shutdown(self) -> None:
        """Refuse new requests, tell readers to reconnect later and let producers finish."""
        if not self.closing:
            self.closing = True
            self.producers.hand_over_at_boundaries()
            self._draining = self.loop.create_task(self._first_drain())
            self.log.wake_readers()
            self.background.drain()

    async def drain(self) -> None:
        """Begin the shutdown, wait until every stream has ended, and disconnect the readers."""
        self.begin_shutdown()
        if self._draining is not None:
            await asyncio.shield(self._draining)

    async def _first_drain(self) -> None:
        seconds, began = self.options.drain_timeout, self.loop.time()
        draining(len(self.producers), seconds)
        if self.takeover is not None:
            await self.takeover.leave()
            self.producers.hand_over_at_boundaries()  # also those that it has started
        await self._drain(max(began + seconds - self.loop.time(), 0))
        drained(self.loop.time() - began)
        self.drained = True
        self.log.wake_readers()

    async def _drain(self, seconds: float) -> None:
        await self.producers.wait(seconds)
        await self.background.completed()
        while len(self.producers):  # one may have started while the others were ending
            self.producers.hand_over_or_stop(SERVER_STOPPED)
            await self.producers.wait(None)

    async def stop(self) -> None:
        """Drain, and release the log."""
        self.begin_shutdown()
        if self._draining is not None:
            await self._draining
        await self._drain(0)
        await self._release()

    async def _stop_without_lifespan(self) -> None:
        self.closing = True
        await self._drain(0)
        await self._release()

    async def _release(self) -> None:
        self.stopped = True
        self.log.wake_readers()
        await self.background.stop()
        await self.producers.quotas.close()
        await self.log.stop(self.owner)


def _watch_gauges(runtime: Runtime, metrics: Metrics) -> None:
    producers = runtime.producers
    metrics.watch(
        {
            "streams_open": lambda: len(producers),
            "readers_open": lambda: producers.readers,
            "log_degraded": lambda: not runtime.log_works,
            "leases_held": lambda: len(producers.held_leases()),
        }
    )
    for limit, used, maximum in producers.quotas.limits():
        metrics.watch_limit(limit, used, maximum)


async def _restart(runtime: Runtime, claim: Claim) -> bool:
    """Start the agent of a claimed stream if it waited; if this process stops, another one does."""
    if runtime.closing:
        return waiting_request(claim.question) is not None
    return await runtime.producers.start_waiting(claim)


async def open_stream(
    runtime: Runtime, new: NewStream, start: Callable[[StreamMeta], object]
) -> Opened:
    """Open a stream, which the caller starts at once if it is new.

    If the caller is cancelled, nobody knows whether the log has opened the stream or will: it would
    have no producer, and its request could not be repeated. So it is opened and started all the
    same, by `start`.

    Raises:
        LogError: the log refuses the request, or does not answer.
    """

    async def open_and_start() -> None:
        with suppress(LogError):  # then the stream ends when its lease does
            opened = await _open(runtime, new)
            if opened.created:
                start(opened.meta)

    try:
        return await _open(runtime, new)
    except asyncio.CancelledError:
        runtime.background.complete(open_and_start())
        raise


async def _open(runtime: Runtime, new: NewStream) -> Opened:
    log = runtime.log
    meta = (await twice(log, lambda: log.open(new, runtime.owner))).meta
    # Otherwise it is the stream of another request, or another process has claimed it.
    is_new = meta.stream_id == new.stream_id and meta.epoch == 1 and meta.outcome is None
    return Opened(meta, is_new)
