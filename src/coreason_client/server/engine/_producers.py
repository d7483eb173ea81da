"""Running agents: each is a task of the application, not of a request."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Protocol
from uuid import UUID

from coreason_manifest.definitions.presentation import StreamError
from coreason_manifest.definitions.service import ServiceRequest

from ..._agent_context import set_current_stream
from .._options import Options
from ..durable._journal import Journal
from ..errors import Fenced, LogError, OutOfSequence, StreamEnded
from ..log.base import DurableLog, StreamLog, StreamMeta
from ..observe import _log_lines
from ..observe._metrics import Metrics, StreamMeter
from ..observe._spans import HANDED_OVER, AgentRun, Attempt, HeaderValues, Tracing
from ..stream import AgentStream
from ._agent import Runner, check_awaited, watch_forgotten
from ._durable_writer import DurableWriter, Origin
from ._ending import ABANDONED, AGENT_ERROR, CANCELLED, PRODUCER_LOST, SERVER_STOPPED
from ._quotas import Quotas, Unit
from ._steps import JournaledSteps, Steps
from ._writer import StreamWriter

__all__ = ["Producer", "Producers"]

logger = logging.getLogger("coreason_client.server")


class ReaderOf(Protocol):
    """The stream of a reader, and the principal that reads it."""

    @property
    def principal(self) -> str: ...
    @property
    def stream_id(self) -> UUID: ...


class Producer:
    """One agent that writes one stream."""

    def __init__(
        self,
        runner: Runner,
        request: ServiceRequest,
        meta: StreamMeta,
        log: StreamLog,
        cancel_grace: float,
        meter: StreamMeter,
        traced: AgentRun,
        origin: Origin | None,
        *,
        first_waits: bool = False,
    ) -> None:
        self.meta = meta
        self.meter = meter
        self.unwritten: StreamError | None = None
        """The end that the log did not accept; set when the producer has finished."""
        self.abandon_timer: asyncio.TimerHandle | None = None
        self._cancel_grace = cancel_grace
        self._reason: StreamError | None = None
        self._problem = ""  # of a restarted agent that cannot continue
        self._hands_over = False
        self._traced = traced
        self._failure: BaseException | None = None
        self._failed_with: StreamError | None = None
        self._started_at = monotonic()
        loop = asyncio.get_running_loop()
        self._stop = loop.create_future()
        self._writer, steps = self._make_writer(request, log, origin, first_waits=first_waits)
        stream, durable = AgentStream(self._writer, steps), isinstance(steps, JournaledSteps)
        agent = _run(runner, request, stream, durable=durable)
        self.agent = loop.create_task(agent, context=traced.context)
        self._writer.agent = self.agent
        self.agent.add_done_callback(self._wake)
        self.task = loop.create_task(self._supervise())

    def _make_writer(
        self, request: ServiceRequest, log: StreamLog, origin: Origin | None, *, first_waits: bool
    ) -> tuple[StreamWriter, Steps]:
        meta, meter = self.meta, self.meter
        if origin is None:
            writer = StreamWriter(
                *(request, meta, log),
                on_cancel=self._on_cancel,
                meter=meter,
                first_waits=first_waits,
            )
            return writer, Steps(meta.stream_id)
        assert isinstance(log, DurableLog)  # noqa: S101 - checked by the application
        durable = DurableWriter(
            *(request, meta, log, origin),
            on_stop=self._stop_restarted,
            on_cancel=self._on_cancel,
            meter=meter,
            span=self._traced.span,
        )
        return durable, JournaledSteps(durable)

    @property
    def request(self) -> ServiceRequest:
        """The request that the stream answers."""
        return self._writer.request

    @property
    def ended(self) -> bool:
        """True if the last packet has been written; it may not be in the log yet."""
        return self._writer.ending.ended

    @property
    def broken(self) -> bool:
        """True if the log refused a packet, so nothing more can be written."""
        return self._writer.ending.broken

    def stop(self, reason: StreamError) -> None:
        """Cancel the agent; the stream ends with this error. Only the first reason is kept."""
        if self._reason is None:
            self._reason = reason
            self._writer.cancelled = True
            self._wake()

    def _wake(self, _: object = None) -> None:
        """Let the supervisor end the stream: the agent has ended, or has to."""
        if not self._stop.done():
            self._stop.set_result(None)

    def _stop_restarted(self, reason: StreamError) -> None:
        """Stop an agent that cannot continue its stream; the log line has the message."""
        if self._reason is None:
            self._problem = reason.message
        self.stop(reason)

    def give_up(self) -> None:
        """Cancel the agent, because another process owns the stream now.

        Does nothing for a stream that is being ended: its lease is gone, but it is not lost.
        """
        if self.ended:
            return
        self._writer.give_up()
        self.stop(PRODUCER_LOST)

    def _on_cancel(self) -> None:
        self.stop(CANCELLED)

    @property
    def durable(self) -> bool:
        """True if another process can continue the stream."""
        return isinstance(self._writer, DurableWriter)

    @property
    def settled(self) -> bool:
        """True if a restarted agent writes live and has made progress, or the stream has ended."""
        writer = self._writer
        if not isinstance(writer, DurableWriter) or self.task.done():
            return True
        restarts = writer.journal.restarts
        restarts.reached(writer.packets)
        return restarts.failed == 0 and writer.replay is None

    def hand_over(self, *, now: bool) -> None:
        """Let another process continue the stream: now, or between two steps of the agent."""
        writer = self._writer
        assert isinstance(writer, DurableWriter)  # noqa: S101 - only those are handed over
        if not now:
            writer.boundary = self._at_boundary
        elif writer.boundary is not None and writer.journal.runs_once():
            # It must not be interrupted. It has some more time to end.
            loop = asyncio.get_running_loop()
            loop.call_later(self._cancel_grace, self._seal_and_stop)
        else:
            self._seal_and_stop()

    def _at_boundary(self) -> None:
        writer = self._writer
        if isinstance(writer, DurableWriter) and writer.journal.runs_once():
            return  # at the same time, or around the step that begins or ends here
        self._seal_and_stop()
        raise StreamEnded(self.meta.stream_id)

    def _seal_and_stop(self) -> None:
        if self._reason is not None or self._hands_over or self.ended:
            return
        self._hands_over = True
        self._writer.cancelled = True
        if isinstance(self._writer, DurableWriter):
            self._writer.seal()
        self._wake()

    async def _supervise(self) -> None:
        try:
            await self._run_to_end()
        finally:
            ending, packets = self._writer.ending, self._writer.packets
            handed_over = self._hands_over and ending.given_up
            outcome = HANDED_OVER if handed_over else ending.outcome
            if handed_over:
                self.meter.handed_over()
            elif ending.taken_over:
                self.meter.lease_lost()
            self._traced.end(packets, outcome, self._failure)
            seconds = monotonic() - self._started_at
            unwritten = "taken_over" if ending.taken_over else "not_written"
            _log_lines.stream_ended(
                self.meta, outcome or unwritten, packets, seconds, self._problem
            )

    async def _run_to_end(self) -> None:
        try:
            await self._stop
        except asyncio.CancelledError:
            # The event loop is shutting down. It has cancelled all tasks and waits for them, so
            # this is the last chance to end the stream.
            if self.durable:
                self._seal_and_stop()
            else:
                self.stop(SERVER_STOPPED)
        if self._reason is not None or self._hands_over:
            await self._cancel_agent()
        try:
            await self._end()
        except Fenced as error:
            self._failure = error
            logger.warning("stream %s was taken over by another process", self.meta.stream_id)
        except LogError as error:
            if not self.durable:
                self.unwritten = self._reason or self._failed_with or PRODUCER_LOST
            elif isinstance(self._writer, DurableWriter) and isinstance(error, OutOfSequence):
                with suppress(LogError):  # then it is continued when its lease ends
                    await self._writer.release(broken=True)
            self._failure = error
            logger.error("stream %s could not be ended: %s", self.meta.stream_id, error)

    async def _cancel_agent(self) -> None:
        self.agent.cancel()
        _cancelled_agents.add(self.agent)
        self.agent.add_done_callback(_agent_ended)
        _, unfinished = await asyncio.wait({self.agent}, timeout=self._cancel_grace)
        if unfinished:
            logger.warning(
                "the agent of stream %s ignores its cancellation; the stream ends anyway",
                self.meta.stream_id,
            )

    async def _end(self) -> None:
        if self._writer.ending.given_up:
            return
        if self._hands_over and isinstance(self._writer, DurableWriter):
            await self._writer.release()
            return
        if self._reason is None and (missing := self._writer.missing()) is not None:
            self._stop_restarted(missing)
            self._log_failure()
        if self._reason is not None:
            await self._writer.end_with(self._reason)
        elif self.agent.cancelled():  # it cancelled itself
            await self._writer.end_with(CANCELLED)
        elif self._log_failure():
            await self._writer.end_with(AGENT_ERROR)
        else:
            await self._writer.complete()

    def _log_failure(self) -> bool:
        """Log the error of the agent; return False if it raised none."""
        if self.agent.cancelled() or (error := self.agent.exception()) is None:
            return False
        self._failure = error
        if not isinstance(error, LogError):
            self._failed_with = AGENT_ERROR
            logger.error(
                "the agent of stream %s failed: %s: %s",
                *(self.meta.stream_id, type(error).__name__, error),
                exc_info=error,
            )
        return True


# Cancelled agents that still run. The event loop keeps only weak references to tasks.
_cancelled_agents: set[asyncio.Future[None]] = set()


def _agent_ended(agent: asyncio.Future[None]) -> None:
    _cancelled_agents.discard(agent)
    if agent.cancelled() or (error := agent.exception()) is None:
        return
    # An error of the log was logged for its stream, and a sealed stream refuses every write.
    if not isinstance(error, LogError | StreamEnded):
        logger.error("an agent failed after it was cancelled", exc_info=error)


async def _run(
    runner: Runner, request: ServiceRequest, stream: AgentStream, *, durable: bool
) -> None:
    set_current_stream(stream, durable=durable)
    await runner(request, stream)
    check_awaited(stream)


class Producers:
    """All producers of this process, and their readers."""

    def __init__(
        self,
        runner: Runner,
        log: StreamLog,
        options: Options,
        metrics: Metrics,
        tracing: Tracing,
        on_unwritten: Callable[[Producer], None],
        quotas: Quotas,
    ) -> None:
        self._runner = runner
        watch_forgotten()
        self._on_unwritten = on_unwritten
        self._log = log
        self._options = options
        self.metrics = metrics
        self._tracing = tracing
        self._by_stream: dict[UUID, Producer] = {}
        self._units: dict[Producer, Unit] = {}
        self.waiting: dict[UUID, int] = {}
        """Claimed streams whose agents wait for their restart, and their epochs."""
        self.quotas = quotas
        # Also of streams whose producer is gone: their readers stay when a durable one continues.
        self._readers_of_stream: Counter[UUID] = Counter()

    def __len__(self) -> int:
        return len(self._by_stream)

    def __iter__(self) -> Iterator[Producer]:
        return iter(list(self._by_stream.values()))

    def get(self, stream_id: UUID) -> Producer | None:
        """Return the producer of a stream, None if it has ended or runs in another process."""
        return self._by_stream.get(stream_id)

    def held_leases(self) -> dict[UUID, int]:
        """Return the streams whose leases are to be renewed, with their epochs.

        The lease of a stream that can no longer be written is not renewed, so the stream will be
        ended. May be called in another thread.
        """
        held = {p.meta.stream_id: p.meta.epoch for p in self if not p.broken}
        return held | self.waiting

    def take_stream(self, principal: str) -> Awaitable[Unit | None]:
        """Return the unit for another stream, None if its principal must not start one."""
        return self.quotas.take_stream(principal, lambda: self._release_ended(principal))

    def _release_ended(self, principal: str) -> None:
        """Release the units of streams that have ended, but whose producers are still here.

        A reader may see the end of a stream slightly before its producer is removed.
        """
        for producer in self:
            if producer.meta.principal == principal and producer.ended:
                self._units[producer].release()

    def start(
        self,
        request: ServiceRequest,
        meta: StreamMeta,
        headers: HeaderValues,
        accepted_at: float,
        unit: Unit | None = None,
        origin: Origin | None = None,
        *,
        first_waits: bool = False,
    ) -> Producer:
        """Start the agent for a request; `origin` is given for a restart of a durable agent.

        Without a unit the stream counts all the same, whatever the limit. With `first_waits`,
        nobody reads the stream as it is written, so its first packet may wait for the next ones.
        """
        options = self._options
        restarted = origin is not None
        if origin is None and meta.agent is not None:
            origin = Origin(Journal(), ())
        attempt = None
        if origin is not None:
            attempt = Attempt(origin.journal.attempt, origin.journal.span)
        producer = Producer(
            self._runner,
            request,
            meta,
            self._log,
            options.cancel_grace,
            self.metrics.continued() if restarted else self.metrics.started(accepted_at),
            self._tracing.begin(options.agent_id, headers, request, meta, attempt),
            origin,
            first_waits=first_waits,
        )
        if (earlier := self._by_stream.get(meta.stream_id)) is not None:
            # This process claimed its own stream, whose lease had run out.
            earlier.give_up()
        self._by_stream[meta.stream_id] = producer
        if unit is None:
            self._units[producer] = self.quotas.add_stream(meta.principal)
        else:
            self._units[producer] = unit.hand_on()
        if restarted:
            self._cancel_if_abandoned(producer)
        else:
            _log_lines.stream_started(meta)
        producer.task.add_done_callback(lambda task: self._done(producer, task))
        return producer

    def _done(self, producer: Producer, task: asyncio.Task[None]) -> None:
        if producer.abandon_timer is not None:
            producer.abandon_timer.cancel()
        if self._by_stream.get(producer.meta.stream_id) is producer:
            del self._by_stream[producer.meta.stream_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("stream %s failed unexpectedly", producer.meta.stream_id, exc_info=error)
        unit = self._units.pop(producer)
        if producer.agent.done():
            unit.release()
        else:  # it still runs although its stream has ended, so it counts
            running = unit if unit.held else self.quotas.add_stream(producer.meta.principal)
            producer.agent.add_done_callback(lambda _: running.release())
        if producer.unwritten is not None:
            self._on_unwritten(producer)

    @property
    def readers(self) -> int:
        """The number of readers of all streams."""
        return self.quotas.readers

    def take_reader(self, principal: str) -> Awaitable[Unit | None]:
        """Return the unit for another reader, None if its principal must not have one."""
        return self.quotas.take_reader(principal)

    def add_reader(self, meta: ReaderOf, unit: Unit) -> None:
        """Count a new reader of a stream; `remove_reader` releases its unit."""
        unit.hand_on()
        self._readers_of_stream[meta.stream_id] += 1
        producer = self._by_stream.get(meta.stream_id)
        if producer is not None and producer.abandon_timer is not None:
            producer.abandon_timer.cancel()
            producer.abandon_timer = None

    def remove_reader(self, meta: ReaderOf) -> None:
        """Stop counting a reader; if it was the last one, start the abandon timer."""
        self.quotas.release_reader(meta.principal)
        self._readers_of_stream[meta.stream_id] -= 1
        if not self._readers_of_stream[meta.stream_id]:
            del self._readers_of_stream[meta.stream_id]
        if (producer := self._by_stream.get(meta.stream_id)) is not None:
            self._cancel_if_abandoned(producer)

    def _cancel_if_abandoned(self, producer: Producer) -> None:
        """Start the abandon timer of a stream that has no readers."""
        options, stream_id = self._options, producer.meta.stream_id
        if options.on_abandoned == "cancel" and not self._readers_of_stream[stream_id]:
            producer.abandon_timer = asyncio.get_running_loop().call_later(
                options.abandon_grace, producer.stop, ABANDONED
            )

    def hand_over_at_boundaries(self) -> None:
        """Hand over each durable stream between two steps of its agent."""
        for producer in self:
            if producer.durable:
                producer.hand_over(now=False)

    def hand_over_or_stop(self, reason: StreamError) -> None:
        """Hand over the durable streams, and end the others with this error."""
        for producer in self:
            if producer.durable:
                producer.hand_over(now=True)
            else:
                producer.stop(reason)

    async def wait(self, timeout: float | None) -> None:
        """Wait until all producers have ended, for at most `timeout` seconds."""
        tasks = {producer.task for producer in self}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
