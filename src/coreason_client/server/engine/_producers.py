"""The agents at work: each is a task of the application, never of a request."""

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
    """An error that ends a stream."""
    return StreamError(code=code, message=message, severity=ErrorSeverity.FATAL)


CANCELLED = fatal("cancelled", "The stream was cancelled.")
ABANDONED = fatal("abandoned", "The stream was stopped because nobody was reading it.")
SERVER_STOPPED = fatal("server_stopped", "The server stopped before the answer was finished.")
# True of a process that died, and of one that lives but was blocked or could not reach the log.
PRODUCER_LOST = fatal(
    "producer_lost", "The producer of this stream stopped writing before the answer was finished."
)
# The words of an exception may hold anything, so none of them reaches a reader.
AGENT_ERROR = fatal("agent_error", "The agent failed with an internal error.")


class Producer:
    """One agent at work on one stream."""

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
        """The end that the log did not take, once the producer has given up."""
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
        """Whether the last packet has been written, though it may not be in the log yet."""
        return self._writer.ending.ended

    @property
    def broken(self) -> bool:
        """Whether the log refused a packet: whatever the agent does, nothing more is written."""
        return self._writer.ending.broken

    def stop(self, reason: StreamError) -> None:
        """Cancel the agent; the stream ends with this error. The first reason counts."""
        if self._reason is None:
            self._reason = reason
            self._writer.cancelled = True
            if not self._stop.done():
                self._stop.set_result(None)

    def lose(self) -> None:
        """Cancel the agent of a stream that now belongs to somebody else.

        One that is just being ended holds no lease any more, and is not lost.
        """
        if self.ended:
            return
        self._writer.give_up()
        self.stop(PRODUCER_LOST)

    def _on_cancel(self) -> None:
        self.stop(CANCELLED)

    async def _supervise(self) -> None:
        try:
            await self._see_to_the_end()
        finally:
            ending, packets = self._writer.ending, self._writer.packets
            self._traced.end(packets, ending.outcome, self._failure)
            seconds = monotonic() - self._started_at
            unwritten = "taken_over" if ending.taken_over else "not_written"
            _log_lines.stream_ended(self.meta, ending.outcome or unwritten, packets, seconds)

    async def _see_to_the_end(self) -> None:
        try:
            await asyncio.wait({self.agent, self._stop}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The event loop is shutting down and cancels all tasks; it waits for this one, which
            # is the last chance to end the stream.
            self.stop(SERVER_STOPPED)
        if self._reason is not None:
            await self._wind_down()
        try:
            await self._end()
        except Fenced as error:
            self._failure = error
            logger.warning("stream %s was taken over by another process", self.meta.stream_id)
        except LogError as error:
            self.unwritten = self._reason or self._failed_with or PRODUCER_LOST
            self._failure = error
            logger.error("stream %s could not be ended: %s", self.meta.stream_id, error)

    async def _wind_down(self) -> None:
        self.agent.cancel()
        _stragglers.add(self.agent)
        self.agent.add_done_callback(_forget)
        _, unfinished = await asyncio.wait({self.agent}, timeout=self._cancel_grace)
        if unfinished:
            logger.warning(
                "the agent of stream %s ignores its cancellation; the stream ends without it",
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


# Agents that were cancelled and have not ended: the event loop itself holds tasks only weakly.
_stragglers: set[asyncio.Future[None]] = set()


def _forget(agent: asyncio.Future[None]) -> None:
    _stragglers.discard(agent)
    if agent.cancelled() or (error := agent.exception()) is None:
        return
    if not isinstance(error, LogError):  # that one its stream has told of
        logger.error("a cancelled agent failed on its way out", exc_info=error)


async def _run(runner: Runner, request: ServiceRequest, stream: AgentStream) -> None:
    await runner(request, stream)


class Producers:
    """All producers of this process, and who reads what they produce."""

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
        self._overdue: Counter[str] = Counter()  # agents that outlive their streams
        self._readers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_stream)

    def __iter__(self) -> Iterator[Producer]:
        return iter(list(self._by_stream.values()))

    def get(self, stream_id: UUID) -> Producer | None:
        """Return the producer of a stream, None when it is not of this process or has ended."""
        return self._by_stream.get(stream_id)

    def held(self) -> dict[UUID, int]:
        """Return the streams whose leases are to be renewed, with their epochs.

        Of a stream that cannot be written any more the lease runs out, so that it is ended. May be
        called in another thread.
        """
        return {p.meta.stream_id: p.meta.epoch for p in self if not p.broken}

    def is_full(self, principal: str) -> bool:
        """Whether a principal has as many streams running as it may."""
        most = self._options.max_streams_per_key
        if self._running[principal] + self._overdue[principal] < most:
            return False
        # A reader may see the end of a stream a moment before its producer is gone.
        running = sum(p.meta.principal == principal and not p.ended for p in self)
        return most <= running + self._overdue[principal]

    def start(
        self, request: ServiceRequest, meta: StreamMeta, headers: HeaderValues, accepted_at: float
    ) -> None:
        """Set the agent to work on a request that came with these headers, at this moment."""
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
        _count_down(self._running, producer.meta.principal)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("stream %s broke", producer.meta.stream_id, exc_info=error)
        if not producer.agent.done():
            self._overdue[producer.meta.principal] += 1
            producer.agent.add_done_callback(
                lambda _: _count_down(self._overdue, producer.meta.principal)
            )
        if producer.unwritten is not None:
            self._on_unwritten(producer)

    @property
    def readers(self) -> int:
        """How many readers there are, of whatever stream."""
        return self._readers.total()

    def has_room(self, principal: str) -> bool:
        """Whether a principal may have one more reader."""
        return self._readers[principal] < self._options.max_readers_per_key

    def admit(self, meta: StreamMeta) -> bool:
        """Count a reader in, unless its principal has as many as it may."""
        if not self.has_room(meta.principal):
            return False
        self._readers[meta.principal] += 1
        producer = self._by_stream.get(meta.stream_id)
        if producer is not None:
            producer.readers += 1
            if producer.abandon_timer is not None:
                producer.abandon_timer.cancel()
                producer.abandon_timer = None
        return True

    def dismiss(self, meta: StreamMeta) -> None:
        """Count a reader out; when it was the last one, the time of the producer may run."""
        _count_down(self._readers, meta.principal)
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
        """Wait until all have ended, or the time is over."""
        tasks = {producer.task for producer in self}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)


def _count_down(counts: Counter[str], principal: str) -> None:
    counts[principal] -= 1
    if not counts[principal]:  # or the table would keep every principal ever seen
        del counts[principal]
