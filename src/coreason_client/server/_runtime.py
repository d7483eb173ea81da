"""The life of an application on one event loop: start, upkeep, drain, stop."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine

from coreason_manifest.definitions.presentation import StreamOpCode

from ._agent import Runner
from ._exit_watch import watch_exit
from ._frames import Frames
from ._metrics import Metrics
from ._options import Options
from ._producers import CANCELLED, PRODUCER_LOST, SERVER_STOPPED, Producers
from ._trace import Tracing
from ._turns import dump_turn, make_turn, parse_question, written_text
from .errors import Fenced, LogError
from .log.base import Claim, LeaseState, StreamLog

__all__ = ["Runtime"]

logger = logging.getLogger("coreason_client.server")

_CLAIMS_AT_ONCE = 100
_PAGE = 1000  # entries read at once
# A lease survives two missed renewals.
_RENEWALS_PER_LEASE = 10 / 3
# Periods after which an upkeep is late: something held us up, or the store.
_LATE = 1.5
_MOST_HELD_BACK = 2
_EXPIRE_EVERY = 10.0
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
        self.metrics = metrics
        self.producers = Producers(runner, log, options, metrics, tracing)
        metrics.watch(lambda: len(self.producers), lambda: self.producers.readers)
        self.closing = False
        self.log_works = True  # as far as the last upkeep could tell
        self.stopped = False
        self.owner = owner
        self._jitter = jitter
        self._started_at = time.monotonic()
        self._expired_at = 0.0
        self._renewed_at = self.loop.time()
        self._held_back = 0  # times in a row
        self._starting: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started_at

    @property
    def readers_leave(self) -> bool:
        """Whether readers should go now and come back to another process.

        Where no other process can serve them, they stay while the producers drain.
        """
        return self.closing and (self.log.shared or self.stopped)

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
            await self.bury_lost()
        self._keeper = self.loop.create_task(self._keep())
        self._watcher = watch_exit(self.begin_shutdown)

    # Upkeep.

    async def _keep(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._until_upkeep())
                try:
                    await self.upkeep()
                    self.log_works = True
                except LogError as error:
                    self.log_works = False
                    logger.warning("the upkeep of the log failed and is tried again: %s", error)
        except asyncio.CancelledError:
            if not self.closing:
                # The event loop is shutting down and nobody called `stop`, as in an application
                # that mounts this one and runs no lifespan: leave the log in order all the same.
                await self._leave_in_order()
            raise

    async def upkeep(self) -> None:
        """Renew the leases, end the streams whose producers are gone, drop what is too old."""
        last = self._renewed_at
        await self._renew()
        holds_back = self._holds_back(self.loop.time() - last)
        await self._while_renewing(self._tidy(bury=not holds_back))

    async def _tidy(self, *, bury: bool) -> None:
        if bury:
            await self.bury_lost()
        if self.loop.time() - self._expired_at >= _EXPIRE_EVERY:
            self._expired_at = self.loop.time()
            await self.log.expire(self.options.retention, self.options.final_retention)

    async def _while_renewing(self, work: Coroutine[None, None, None]) -> None:
        """Do something that may take longer than a lease, and keep our own meanwhile."""
        task = self.loop.create_task(work)
        try:
            while not task.done():
                due = self._renewed_at + self._period - self.loop.time()
                await asyncio.wait({task}, timeout=max(due, 0.0))
                if not task.done():
                    await self._renew()
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def _period(self) -> float:
        return self.log.lease / _RENEWALS_PER_LEASE

    def _until_upkeep(self) -> float:
        if self._held_back:
            return self._period
        return max(self._renewed_at + self._period - self.loop.time(), self._period / 2)

    def _holds_back(self, since_last: float) -> bool:
        """Whether to leave the streams of others alone this time.

        When this process was away from the store for a while, or the store from all, the leases
        of producers that live may have run out too: they get a period to renew them. On a machine
        that is always late, a stream without a producer must come to its end all the same.
        """
        late = since_last > _LATE * self._period and self._held_back < _MOST_HELD_BACK
        self._held_back = self._held_back + 1 if late else 0
        return late

    async def _renew(self) -> None:
        self._renewed_at = self.loop.time()
        held = {producer.meta.stream_id: producer.meta.epoch for producer in self.producers}
        if not held:
            return
        for stream_id, state in (await self.log.renew(held)).items():
            producer = self.producers.get(stream_id)
            if producer is None:  # it ended meanwhile
                continue
            if state is LeaseState.LOST:
                producer.lose()
            elif state is LeaseState.CANCEL_REQUESTED:
                producer.stop(CANCELLED)

    async def bury_lost(self) -> None:
        """End the streams whose producers are gone with a numbered `producer_lost`."""
        while claims := await self.log.claim_lost(self.owner, _CLAIMS_AT_ONCE):
            # Together: a process that dies may leave thousands of streams.
            await asyncio.gather(*(self._bury(claim) for claim in claims))

    async def _bury(self, claim: Claim) -> None:
        await self._keep_turn(claim)
        seq = claim.last_seq + 1
        frame, _ = Frames(claim.stream_id).packet(seq, StreamOpCode.ERROR, PRODUCER_LOST)
        try:
            await self.log.close(claim.stream_id, claim.epoch, seq, [frame], PRODUCER_LOST.code)
        except Fenced:  # somebody was faster
            return
        self.metrics.taken_over()
        logger.warning("stream %s lost its producer after packet %d", *_where(claim))

    async def _keep_turn(self, claim: Claim) -> None:
        """Keep the question of a lost stream, and the text that was written."""
        if not claim.question:  # opened by a release that did not store it
            return
        try:
            conversation, asked = parse_question(claim.question)
            turn = make_turn(asked, await self._written(claim), PRODUCER_LOST.code)
            await self.log.add_turn(conversation, claim.stream_id, dump_turn(turn))
        except (LogError, ValueError) as error:
            # The stream must end all the same: its readers wait for that.
            logger.warning("the turn of stream %s was not kept: %s", claim.stream_id, error)

    async def _written(self, claim: Claim) -> str:
        texts: list[str] = []
        position = 0
        while position < claim.last_seq:
            page = await self.log.read(claim.stream_id, position, _PAGE, 0)
            if not page.entries:
                break
            texts.append(written_text(page.entries))
            position += len(page.entries)
        return "".join(texts)

    # The end.

    def begin_shutdown(self) -> None:
        """Refuse new requests, tell readers to come back later and let producers drain."""
        if not self.closing:
            self.closing = True
            self._draining = self.loop.create_task(self._drain(self.options.drain_timeout))
            self.log.nudge()

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
        self.log.nudge()
        for task in (self._keeper, self._watcher):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                await asyncio.wait({task})
        await self.log.stop(self.owner)


def _where(claim: Claim) -> tuple[object, int]:
    return claim.stream_id, claim.last_seq
