"""The upkeep of a log while an application serves: leases, orphaned streams, old streams.

The parts are independent. One that fails is reported and tried again with the next upkeep, and
never keeps another from running: a store that is full refuses to renew leases until old streams
have expired, so nothing may come between it and the expiry. Whatever takes long, the leases of
this process are renewed meanwhile.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final

from .._options import Options
from .._outage import Outage
from ..errors import LogError
from ..log.base import LeaseState, StreamLog
from ._orphans import Orphans
from ._producers import CANCELLED, Producers

__all__ = ["RENEWALS_PER_LEASE", "Upkeep"]

logger = logging.getLogger("coreason_client.server")

# A lease survives two missed renewals.
RENEWALS_PER_LEASE: Final = 10 / 3
_EXPIRE_EVERY = 10.0
# Periods after which an upkeep is late: this process or the store was held up.
_LATE = 1.5
_MOST_HELD_BACK = 2
# Seconds of failing claims after which a reader no longer waits for a producer elsewhere.
_CLAIMS_FAILED = 15.0

_ALL, _RENEW, _EXPIRE, _ENDS, _CLAIM = (
    "the upkeep of the log",
    "renewing leases",
    "dropping expired streams",
    "writing the ends of streams",
    "ending streams without a producer",
)


class Upkeep:
    """Keeps the leases of this process, and the log in order."""

    def __init__(
        self, log: StreamLog, options: Options, producers: Producers, orphans: Orphans
    ) -> None:
        self._log = log
        self._options = options
        self._producers = producers
        self._orphans = orphans
        self._loop = asyncio.get_running_loop()
        self._outages = {part: Outage() for part in (_ALL, _RENEW, _EXPIRE, _ENDS, _CLAIM)}
        self._expired_at = 0.0
        self._renewed_at = self._loop.time()  # or tried to
        self._longest_gap = 0.0  # between two renewals, of this upkeep
        self._held_back = 0  # times in a row

    @property
    def failing(self) -> tuple[str, ...]:
        """The parts that failed the last time they were tried."""
        return tuple(part for part, outage in self._outages.items() if outage.since is not None)

    @property
    def cannot_claim(self) -> bool:
        """Whether streams of dead producers have not been ended for some time.

        A reader cannot know then whether the producer of its stream, in another process, lives.
        """
        return self._outages[_CLAIM].lasted(self._loop.time()) >= _CLAIMS_FAILED

    async def run(self) -> None:
        """Do the upkeep for ever."""
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
            # First, as it makes room for everything else in a full store.
            expired = await self._while_renewing(_EXPIRE, self._expire())
        if self._renewed_at == last or (expired and _RENEW in self.failing):
            await self._renew()
        await self._while_renewing(_ENDS, self._orphans.write_ends())
        recovered = renewing_failed and _RENEW not in self.failing
        if not self._holds_back(recovered=recovered):
            await self._while_renewing(_CLAIM, self._orphans.close_lost())

    async def _expire(self) -> None:
        await self._log.expire(self._options.retention, self._options.final_retention)

    async def _try(self, part: str, work: Coroutine[None, None, None]) -> bool:
        """Do a part of the upkeep; return True if it worked."""
        outage = self._outages[part]
        try:
            await work
        except Exception as error:  # a mistake in one part must not end the others
            if outage.failed(self._loop.time()):
                expected = isinstance(error, LogError)
                logger.warning(
                    "%s failed and is tried again: %s",
                    *(part, error if expected else repr(error)),
                    exc_info=None if expected else error,
                )
            return False
        seconds = outage.worked(self._loop.time())
        if seconds is not None:
            logger.warning("%s works again, after %.0f s", part, seconds)
        return True

    async def _while_renewing(self, part: str, work: Coroutine[None, None, None]) -> bool:
        """Do something that may take longer than a lease, and keep our own meanwhile."""
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
        if self._held_back:
            return self.period
        return max(self._renewed_at + self.period - self._loop.time(), self.period / 2)

    def _holds_back(self, *, recovered: bool) -> bool:
        """Return True to leave the streams of other processes alone this time.

        If this process was away from the store for a while, or the store from all processes, the
        leases of producers that live may have run out too: they get a period to renew them. On a
        machine that is always late, a stream without a producer must end all the same.
        """
        late = recovered or self._longest_gap > _LATE * self.period
        late = late and self._held_back < _MOST_HELD_BACK
        self._held_back = self._held_back + 1 if late else 0
        return late

    async def _renew(self) -> None:
        last, self._renewed_at = self._renewed_at, self._loop.time()
        await self._try(_RENEW, self._renew_leases())
        self._longest_gap = max(self._longest_gap, self._loop.time() - last)

    async def _renew_leases(self) -> None:
        if not (held := self._producers.held()):
            return
        for stream_id, state in (await self._log.renew(held)).items():
            producer = self._producers.get(stream_id)
            if producer is None:  # it ended meanwhile
                continue
            if state is LeaseState.LOST:
                producer.lose()
            elif state is LeaseState.CANCEL_REQUESTED:
                producer.stop(CANCELLED)
