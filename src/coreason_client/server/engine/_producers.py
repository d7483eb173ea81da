"""Running agents, and the readers of their streams."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Protocol
from uuid import UUID

from coreason_manifest.definitions.presentation import StreamError
from coreason_manifest.definitions.service import ServiceRequest

from .._options import Options
from ..durable._journal import Journal
from ..log.base import Claim, EpochStart, StreamLog, StreamMeta
from ..observe import _log_lines
from ..observe._metrics import Metrics
from ..observe._spans import Attempt, HeaderValues, StoredHeaders, Tracing
from ._agent import Runner, answering, continuing, watch_forgotten
from ._conversation import waiting_request
from ._durable_writer import Origin
from ._limits import Quotas, Unit
from ._order import Order, UnreadTurns
from ._packets import ABANDONED, CANCELLED
from ._producer import DurableProducer, Producer

logger = logging.getLogger("coreason_client.server")

_CANCEL_WAIT = 1.0  # seconds that a cancel waits for the end of the stream


class ReaderOf(Protocol):
    """The stream of a reader, and the principal that reads it."""

    @property
    def principal(self) -> str: ...
    @property
    def stream_id(self) -> UUID: ...


class Producers:
    """All producers of this process, and their readers."""

    def __init__(
        self,
        runner: Runner,
        log: StreamLog,
        options: Options,
        owner: str,
        metrics: Metrics,
        tracing: Tracing,
        on_unwritten: Callable[[Producer], None],
        quotas: Quotas,
    ) -> None:
        self.order: Order | None = None
        self._runner = runner = answering(continuing(runner) if options.durable else runner)
        if options.on_busy != "parallel":
            self.order = Order(log, options.on_busy, self.get, self.cancel)
            self._runner = self.order.ordered(runner)
        waiting = self.order if options.on_busy == "wait" else None
        self.unread = UnreadTurns(log, owner, waiting, self.start)
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

    def wake_inbox(self, stream_id: UUID) -> None:
        """Let an agent of this process see a new message at once."""
        producer = self.get(stream_id)
        if producer is not None and producer.inbox is not None:
            producer.inbox.wake()

    async def start_waiting(self, claim: Claim) -> bool:
        """Start an agent that waited for its turn when its process died; return False for others.

        Raises:
            LogError: the log does not answer.
        """
        if self.order is None or (found := waiting_request(claim.question)) is None:
            return False
        meta = as_claimed(await self._log.meta(claim.stream_id), claim)
        if meta.cancel_requested:
            return False
        request, trace = found
        self.order.add_unstarted(claim.stream_id)
        self.start(request, meta, StoredHeaders(trace), monotonic())
        return True

    async def cancel(self, meta: StreamMeta) -> None:
        """Cancel a stream, and wait a moment for its end; repeated calls change nothing.

        Raises:
            LogError: the log does not answer.
        """
        if meta.outcome is not None:
            return
        # The flag is for a producer in another process; one in this process is stopped here.
        await self._log.request_cancel(meta.stream_id)
        producer = self.get(meta.stream_id)
        if producer is not None:
            producer.stop(CANCELLED)
            # Most agents stop at once, and then the turn is in the history of the next request.
            await asyncio.wait({producer.task}, timeout=_CANCEL_WAIT)

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

        Without a unit that is held, the stream counts all the same, whatever the limit. With
        `first_waits`, nobody reads the stream as it is written, so its first packet may wait for
        the next ones.
        """
        options = self._options
        restarted = origin is not None
        if origin is None and meta.agent is not None:
            origin = Origin(Journal(), ())
        attempt = None
        if origin is not None:
            attempt = Attempt(origin.journal.attempt, origin.journal.span)
        meter = self.metrics.continued() if restarted else self.metrics.started(accepted_at)
        traced = self._tracing.begin(options.agent_id, headers, request, meta, attempt)
        known = (self._runner, request, meta, self._log, options, meter, traced)
        producer = (
            Producer(*known, first_waits=first_waits)
            if origin is None
            else DurableProducer(*known, origin)
        )
        if (earlier := self._by_stream.get(meta.stream_id)) is not None:
            # This process claimed its own stream, whose lease had run out.
            earlier.give_up()
        self._by_stream[meta.stream_id] = producer
        if producer.inbox is not None:
            producer.inbox.name_unread = partial(self.unread.name_of, producer)
        if unit is None or not unit.held:
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
            if self.order is not None:
                self.order.unstarted.pop(producer.meta.stream_id, None)
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
            producer.hand_over_at_boundary()

    def hand_over_or_stop(self, reason: StreamError) -> None:
        """Hand over the durable streams and those that wait; end the others with this error."""
        waiting = {} if self.order is None else self.order.unstarted
        for producer in self:
            if producer.meta.stream_id in waiting:
                producer.give_up()  # another process starts it when its lease ends
            else:
                producer.hand_over_or_stop(reason)

    async def wait(self, timeout: float | None) -> None:
        """Wait until all producers have ended, for at most `timeout` seconds."""
        tasks = {producer.task for producer in self}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)


def as_claimed(meta: StreamMeta, claim: Claim) -> StreamMeta:
    """Return the description of a stream with the epoch of its claim.

    The store may show another claim: one that followed, or after a failover one that came before.
    """
    earlier = tuple(start for start in meta.epochs if start.epoch < claim.epoch)
    epochs = (*earlier, EpochStart(claim.last_seq + 1, claim.epoch))
    return replace(meta, epoch=claim.epoch, last_seq=claim.last_seq, epochs=epochs)
