"""One running agent, which writes one stream: a task of the application, not of a request."""

import asyncio
import logging
from contextlib import suppress
from time import monotonic
from typing import Final

from coreason_manifest.definitions.presentation import StreamError
from coreason_manifest.definitions.service import ServiceRequest

from ..._context import set_current_stream
from .._options import Options
from ..errors import Fenced, LogError, LogUnavailable, OutOfSequence, StreamCancelled, StreamEnded
from ..log.base import DurableLog, StreamLog, StreamMeta
from ..observe import _log_lines
from ..observe._metrics import StreamMeter
from ..observe._spans import HANDED_OVER, AgentRun
from ..stream import AgentStream
from ._agent import Runner, check_awaited
from ._durable_writer import DurableWriter, Origin
from ._inbox import Inbox, InboxStore, taken_in
from ._packets import AGENT_ERROR, CANCELLED, PRODUCER_LOST, SERVER_STOPPED
from ._steps import JournaledSteps, Steps
from ._writer import StreamWriter

logger = logging.getLogger("coreason_client.server")

# Seconds before the restart of an agent that failed with a TRANSIENT error.
_FIRST_DELAY: Final = 1.0
_LONGEST_BACKOFF: Final = 30.0
_LONGEST_DELAY: Final = 300.0  # that an error may ask for


class Producer:
    """The agent of a stream that only this process can write."""

    durable = False
    """True if another process can continue the stream."""
    _writer: StreamWriter
    _steps: Steps
    _problem = ""  # of a restarted agent that cannot continue

    def __init__(
        self,
        runner: Runner,
        request: ServiceRequest,
        meta: StreamMeta,
        log: StreamLog,
        options: Options,
        meter: StreamMeter,
        traced: AgentRun,
        *,
        first_waits: bool = False,
    ) -> None:
        self.meta = meta
        self.meter = meter
        self.unwritten: StreamError | None = None
        """The end that the log did not accept; set when the producer has finished."""
        self.abandon_timer: asyncio.TimerHandle | None = None
        self._cancel_grace = options.cancel_grace
        self._reason: StreamError | None = None  # of a stop
        self._traced = traced
        self._failure: BaseException | None = None
        self._started_at = monotonic()
        loop = asyncio.get_running_loop()
        self._stop = loop.create_future()
        self._make_writer(request, log, first_waits=first_waits)
        self.inbox = _inbox_of(self._writer, self._steps, log, meta) if options.inbox else None
        stream = AgentStream(self._writer, self._steps, self.inbox)
        agent = _run(runner, request, stream, durable=self.durable)
        self.agent = loop.create_task(agent, context=traced.context)
        self._writer.agent = self.agent
        self.agent.add_done_callback(self._wake)
        self.task = loop.create_task(self._supervise())

    def _make_writer(self, request: ServiceRequest, log: StreamLog, *, first_waits: bool) -> None:
        self._writer = StreamWriter(
            *(request, self.meta, log),
            on_cancel=self._on_cancel,
            meter=self.meter,
            first_waits=first_waits,
        )
        self._steps = Steps(self.meta.stream_id)

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

    @property
    def settled(self) -> bool:
        """True if a restarted agent writes live and has made progress, or the stream has ended."""
        return True

    def stop(self, reason: StreamError) -> None:
        """Cancel the agent; the stream ends with this error. Only the first reason is kept."""
        if self._reason is None:
            self._reason = reason
            self._writer.cancelled = True
            self._wake()

    def _on_cancel(self) -> None:
        self.stop(CANCELLED)

    def _wake(self, _: object = None) -> None:
        """Let the supervisor end the stream: the agent has ended, or has to."""
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

    def hand_over_at_boundary(self) -> None:
        """Let another process continue a durable stream between two steps of its agent."""

    def hand_over_or_stop(self, reason: StreamError) -> None:
        """Let another process continue a durable stream now; end any other one with this error."""
        self.stop(reason)

    def _shut_down(self) -> None:
        self.stop(SERVER_STOPPED)

    async def _supervise(self) -> None:
        try:
            await self._run_to_end()
        finally:
            outcome, packets = self._report_outcome(), self._writer.packets
            self._traced.end(packets, outcome, self._failure)
            seconds = monotonic() - self._started_at
            unwritten = "taken_over" if self._writer.ending.taken_over else "not_written"
            _log_lines.stream_ended(
                self.meta, outcome or unwritten, packets, seconds, self._problem
            )

    def _report_outcome(self) -> str | None:
        """Return how the stream has ended, None if that is not in the log; count what was lost."""
        ending = self._writer.ending
        if ending.taken_over:
            self.meter.lease_lost()
        return ending.outcome

    async def _run_to_end(self) -> None:
        try:
            await self._stop
        except asyncio.CancelledError:
            # The event loop is shutting down. It has cancelled all tasks and waits for them, so
            # this is the last chance to end the stream.
            self._shut_down()
        if self._writer.cancelled:
            await self._cancel_agent()
        try:
            await self._end()
        except Fenced as error:
            self._failure = error
            logger.warning("stream %s was taken over by another process", self.meta.stream_id)
        except LogError as error:
            await self._not_ended(error)
            self._failure = error
            logger.error("stream %s could not be ended: %s", self.meta.stream_id, error)

    async def _not_ended(self, error: LogError) -> None:
        """Do what can be done for a stream whose end the log did not accept."""
        failed = self._failure is not None and not isinstance(self._failure, LogError)
        self.unwritten = self._reason or (AGENT_ERROR if failed else PRODUCER_LOST)

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
        writer = self._writer
        if writer.ending.given_up:
            return
        if self._reason is not None:
            await writer.end_with(self._reason)
        elif self.agent.cancelled():  # it cancelled itself
            await writer.end_with(CANCELLED)
        elif self._log_failure():
            await writer.end_with(AGENT_ERROR)
        else:
            await writer.complete()

    def _log_failure(self) -> bool:
        """Log the error of the agent; return False if it raised none."""
        if self.agent.cancelled() or (error := self.agent.exception()) is None:
            return False
        self._failure = error
        if not isinstance(error, LogError):
            logger.error(
                "the agent of stream %s failed: %s: %s",
                *(self.meta.stream_id, type(error).__name__, error),
                exc_info=error,
            )
        return True


class DurableProducer(Producer):
    """The agent of a stream that another process can continue."""

    durable = True
    _writer: DurableWriter

    def __init__(
        self,
        runner: Runner,
        request: ServiceRequest,
        meta: StreamMeta,
        log: StreamLog,
        options: Options,
        meter: StreamMeter,
        traced: AgentRun,
        origin: Origin,
    ) -> None:
        self._origin = origin
        self._max_restarts = options.max_restarts
        self._hands_over = False
        self._waits = False  # for the restart of its agent
        self._released = False
        super().__init__(runner, request, meta, log, options, meter, traced)

    def _make_writer(self, request: ServiceRequest, log: StreamLog, *, first_waits: bool) -> None:
        assert isinstance(log, DurableLog)  # noqa: S101 - checked by the application
        self._writer = DurableWriter(
            *(request, self.meta, log, self._origin),
            on_stop=self._stop_restarted,
            on_cancel=self._on_cancel,
            meter=self.meter,
            span=self._traced.span,
        )
        self._steps = JournaledSteps(self._writer)

    def _stop_restarted(self, reason: StreamError) -> None:
        """Stop an agent that cannot continue its stream; the log line has the message."""
        if self._reason is None:
            self._problem = reason.message
        self.stop(reason)

    @property
    def settled(self) -> bool:
        """True if a restarted agent writes live and has made progress, or the stream has ended."""
        writer = self._writer
        if self.task.done():
            return True
        restarts = writer.journal.restarts
        restarts.reached(writer.packets - writer.transient_errors)
        return restarts.failed == 0 and writer.replay is None

    def hand_over_at_boundary(self) -> None:
        """Let another process continue the stream between two steps of the agent."""
        self._writer.boundary = self._at_boundary
        if self._waits:
            self._seal_and_stop()

    def hand_over_or_stop(self, reason: StreamError) -> None:
        """Let another process continue the stream now."""
        if self._writer.boundary is not None and self._writer.journal.runs_once():
            # It must not be interrupted. It has some more time to end.
            loop = asyncio.get_running_loop()
            loop.call_later(self._cancel_grace, self._seal_and_stop)
        else:
            self._seal_and_stop()

    def _at_boundary(self) -> None:
        if self._writer.journal.runs_once():
            return  # at the same time, or around the step that begins or ends here
        self._seal_and_stop()
        raise StreamEnded(self.meta.stream_id)

    def _seal_and_stop(self) -> None:
        if self._reason is not None or self._hands_over or self.ended:
            return
        self._hands_over = True
        self._writer.cancelled = True
        self._writer.seal()
        self._wake()

    def _shut_down(self) -> None:
        self._seal_and_stop()

    def _report_outcome(self) -> str | None:
        if self._released:
            self.meter.handed_over()
            return HANDED_OVER
        return super()._report_outcome()

    async def _not_ended(self, error: LogError) -> None:
        if isinstance(error, OutOfSequence):
            with suppress(LogError):  # then it is continued when its lease ends
                await self._writer.release(broken=True)

    async def _end(self) -> None:
        writer, agent = self._writer, self.agent
        error = writer.transient_error
        failure = agent.exception() if agent.done() and not agent.cancelled() else None
        # The agent looked at something else than its packets, and the log did not answer.
        goes_on = self._hands_over or (isinstance(failure, LogUnavailable) and not self.broken)
        if error is not None and self._returned and not (self.ended or self._hands_over):
            await self._wait_for_restart(error)
        elif self._reason is None and not goes_on and (missing := writer.missing()) is not None:
            self._stop_restarted(missing)
            self._log_failure()
        if self._reason is None and (goes_on or self._waits) and not self.ended:
            await writer.release(failed=not self._hands_over)
            self._released = True
        else:
            await super()._end()

    @property
    def _returned(self) -> bool:
        """True if the agent has ended without an exception, and was not stopped."""
        agent = self.agent
        ended = agent.done() and not agent.cancelled() and agent.exception() is None
        return ended and self._reason is None

    async def _wait_for_restart(self, error: StreamError) -> None:
        """Wait before the agent that failed with a TRANSIENT error is started again, if it may."""
        restarts = self._writer.journal.restarts
        restarts.run_failed(self._writer.packets, self._writer.transient_errors)
        if not restarts.may_start(self._max_restarts):
            return
        delay = _restart_delay(error, restarts.total)
        _log_lines.agent_failed_transiently(self.meta, error.code, delay)
        self._waits = True
        self._writer.seal()  # what the agent has left behind must not write
        self._stop = asyncio.get_running_loop().create_future()
        if self._writer.boundary is not None:  # the server is being stopped
            self._seal_and_stop()
        try:
            await asyncio.wait({self._stop}, timeout=delay)
        except asyncio.CancelledError:
            self._shut_down()


def _inbox_of(writer: StreamWriter, steps: Steps, log: StreamLog, meta: StreamMeta) -> Inbox:
    def check() -> None:
        if writer.cancelled or writer.ending.ended:
            raise StreamCancelled(meta.stream_id)  # an agent in a thread gets no other signal

    taken = taken_in(writer.journal) if isinstance(writer, DurableWriter) else {}
    inbox = Inbox(InboxStore(log, meta), steps, taken, check)
    writer.turns.seal, writer.turns.heard = inbox.seal, inbox.taken
    return inbox


def _restart_delay(error: StreamError, restarts: int) -> float:
    """Return the seconds to wait after a TRANSIENT error: those it asks for, or a back-off."""
    asked = (error.details or {}).get("retry_after")
    if isinstance(asked, int | float) and asked >= 0:
        return float(min(asked, _LONGEST_DELAY))
    return min(_FIRST_DELAY * 2.0**restarts, _LONGEST_BACKOFF)


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
