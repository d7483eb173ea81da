"""Running agents: each is a task of the application, not of a request."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from time import monotonic
from uuid import UUID

from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError
from coreason_manifest.definitions.service import ServiceRequest

from .._options import Options
from ..errors import Fenced, LogError
from ..log.base import StreamLog, StreamMeta
from ..observe import _log_lines
from ..observe._metrics import Metrics, StreamMeter
from ..observe._spans import AgentRun, HeaderValues, Tracing
from ..stream import AgentStream
from ._agent import Runner
from ._writer import StreamWriter

__all__ = ["Producer", "Producers", "fatal"]

logger = logging.getLogger("coreason_client.server")


def fatal(code: str, message: str) -> StreamError:
    """Return an error that ends a stream."""
    return StreamError(code=code, message=message, severity=ErrorSeverity.FATAL)


CANCELLED = fatal("cancelled", "The stream was cancelled.")
ABANDONED = fatal("abandoned", "The stream was stopped because it had no readers.")
SERVER_STOPPED = fatal("server_stopped", "The server stopped before the answer was finished.")
# True for a dead process and for one that was blocked or could not reach the log.
PRODUCER_LOST = fatal(
    "producer_lost", "The producer of this stream stopped writing before the answer was finished."
)
# The text of an exception may contain secrets, so readers do not get it.
AGENT_ERROR = fatal("agent_error", "The agent failed with an internal error.")


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
    ) -> None:
        self.meta = meta
        self.request = request
        self.meter = meter
        self.unwritten: StreamError | None = None
        """The end that the log did not accept; set when the producer has finished."""
        self.readers = 0
        self.abandon_timer: asyncio.TimerHandle | None = None
        self._cancel_grace = cancel_grace
        self._reason: StreamError | None = None
        self._traced = traced
        self._failure: BaseException | None = None
        self._failed_with: StreamError | None = None
        self._writer = StreamWriter(request, meta, log, on_cancel=self._on_cancel, meter=meter)
        self._started_at = monotonic()
        loop = asyncio.get_running_loop()
        self._stop = loop.create_future()
        agent = _run(runner, request, AgentStream(self._writer))
        self.agent = loop.create_task(agent, context=traced.context)
        self.task = loop.create_task(self._supervise())

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
            if not self._stop.done():
                self._stop.set_result(None)

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

    async def _supervise(self) -> None:
        try:
            await self._run_to_end()
        finally:
            ending, packets = self._writer.ending, self._writer.packets
            self._traced.end(packets, ending.outcome, self._failure)
            seconds = monotonic() - self._started_at
            unwritten = "taken_over" if ending.taken_over else "not_written"
            _log_lines.stream_ended(self.meta, ending.outcome or unwritten, packets, seconds)

    async def _run_to_end(self) -> None:
        try:
            await asyncio.wait({self.agent, self._stop}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The event loop is shutting down. It has cancelled all tasks and waits for them, so
            # this is the last chance to end the stream.
            self.stop(SERVER_STOPPED)
        if self._reason is not None:
            await self._cancel_agent()
        try:
            await self._end()
        except Fenced as error:
            self._failure = error
            logger.warning("stream %s was taken over by another process", self.meta.stream_id)
        except LogError as error:
            self.unwritten = self._reason or self._failed_with or PRODUCER_LOST
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
        if self._reason is not None:
            await self._writer.end_with(self._reason)
        elif self.agent.cancelled():  # it cancelled itself
            await self._writer.end_with(CANCELLED)
        elif (error := self.agent.exception()) is not None:
            await self._end_failed(error)
        else:
            await self._writer.complete()

    async def _end_failed(self, error: BaseException) -> None:
        self._failure = error
        if not isinstance(error, LogError):
            self._failed_with = AGENT_ERROR
            logger.error(
                "the agent of stream %s failed: %s: %s",
                *(self.meta.stream_id, type(error).__name__, error),
                exc_info=error,
            )
        await self._writer.end_with(AGENT_ERROR)


# Cancelled agents that still run. The event loop keeps only weak references to tasks.
_cancelled_agents: set[asyncio.Future[None]] = set()


def _agent_ended(agent: asyncio.Future[None]) -> None:
    _cancelled_agents.discard(agent)
    if agent.cancelled() or (error := agent.exception()) is None:
        return
    if not isinstance(error, LogError):  # already logged for its stream
        logger.error("an agent failed after it was cancelled", exc_info=error)


async def _run(runner: Runner, request: ServiceRequest, stream: AgentStream) -> None:
    await runner(request, stream)


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
    ) -> None:
        self._runner = runner
        self._on_unwritten = on_unwritten
        self._log = log
        self._options = options
        self._metrics = metrics
        self._tracing = tracing
        self._by_stream: dict[UUID, Producer] = {}
        self._running: Counter[str] = Counter()
        self._unfinished: Counter[str] = (
            Counter()
        )  # agents that still run although their stream has ended
        self._readers: Counter[str] = Counter()

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
        return {p.meta.stream_id: p.meta.epoch for p in self if not p.broken}

    def at_stream_limit(self, principal: str) -> bool:
        """Return True if a principal must not start another stream."""
        most = self._options.max_streams_per_key
        if self._running[principal] + self._unfinished[principal] < most:
            return False
        # A reader may see the end of a stream slightly before its producer is removed.
        running = sum(p.meta.principal == principal and not p.ended for p in self)
        return most <= running + self._unfinished[principal]

    def start(
        self, request: ServiceRequest, meta: StreamMeta, headers: HeaderValues, accepted_at: float
    ) -> None:
        """Start the agent for a request."""
        options = self._options
        producer = Producer(
            self._runner,
            request,
            meta,
            self._log,
            options.cancel_grace,
            self._metrics.started(accepted_at),
            self._tracing.begin(options.agent_id, headers, request, meta),
        )
        self._by_stream[meta.stream_id] = producer
        self._running[meta.principal] += 1
        _log_lines.stream_started(meta)
        producer.task.add_done_callback(lambda task: self._done(producer, task))

    def _done(self, producer: Producer, task: asyncio.Task[None]) -> None:
        if producer.abandon_timer is not None:
            producer.abandon_timer.cancel()
        del self._by_stream[producer.meta.stream_id]
        _decrement(self._running, producer.meta.principal)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("stream %s failed unexpectedly", producer.meta.stream_id, exc_info=error)
        if not producer.agent.done():
            self._unfinished[producer.meta.principal] += 1
            producer.agent.add_done_callback(
                lambda _: _decrement(self._unfinished, producer.meta.principal)
            )
        if producer.unwritten is not None:
            self._on_unwritten(producer)

    @property
    def readers(self) -> int:
        """The number of readers of all streams."""
        return self._readers.total()

    def can_add_reader(self, principal: str) -> bool:
        """Return True if a principal may have another reader."""
        return self._readers[principal] < self._options.max_readers_per_key

    def add_reader(self, meta: StreamMeta) -> bool:
        """Count a new reader; return False if its principal must not have another one."""
        if not self.can_add_reader(meta.principal):
            return False
        self._readers[meta.principal] += 1
        producer = self._by_stream.get(meta.stream_id)
        if producer is not None:
            producer.readers += 1
            if producer.abandon_timer is not None:
                producer.abandon_timer.cancel()
                producer.abandon_timer = None
        return True

    def remove_reader(self, meta: StreamMeta) -> None:
        """Stop counting a reader; if it was the last one, start the abandon timer."""
        _decrement(self._readers, meta.principal)
        producer = self._by_stream.get(meta.stream_id)
        if producer is None:
            return
        producer.readers -= 1
        if producer.readers == 0 and self._options.on_abandoned == "cancel":
            producer.abandon_timer = asyncio.get_running_loop().call_later(
                self._options.abandon_grace, producer.stop, ABANDONED
            )

    def stop_all(self, reason: StreamError) -> None:
        """End every stream with this error."""
        for producer in self:
            producer.stop(reason)

    async def wait(self, timeout: float | None) -> None:
        """Wait until all producers have ended, for at most `timeout` seconds."""
        tasks = {producer.task for producer in self}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)


def _decrement(counts: Counter[str], principal: str) -> None:
    counts[principal] -= 1
    if not counts[principal]:  # otherwise the table would keep every principal ever seen
        del counts[principal]
