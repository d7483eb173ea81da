"""Leases are kept while the event loop is blocked, for as long as there is hope.

The process of a blocked event loop lives, and its agents may go on in a moment: their streams
should not be ended by other processes. A process that has made no progress for a minute is stuck,
and then the readers of its streams must be told.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from ..log.base import StreamLog

__all__ = ["LONGEST_BLOCK", "LeaseRescue", "renew_elsewhere"]

logger = logging.getLogger("coreason_client.server")

LONGEST_BLOCK: Final = 60.0  # seconds without progress of the event loop


class LeaseRescue:
    """Decides when leases are renewed in the place of the event loop; `renew` does it."""

    def __init__(self, period: float, renew: Callable[[], None]) -> None:
        self._period = period
        self._renew = renew
        self._silence = 0.0
        self._due = period
        self._given_up = False

    def look(self, silence: float, blocked: float) -> None:
        """Renew the leases if it is time.

        `silence` is for how long the loop has made no progress, and `blocked` how much of it the
        process could run.
        """
        if silence < self._silence:  # it is another one
            self._due, self._given_up = self._period, False
        self._silence = silence
        if blocked > LONGEST_BLOCK:
            if not self._given_up:
                self._given_up = True
                logger.error(
                    "the event loop has made no progress for %.0f s: the leases of its streams are "
                    "no longer renewed, so other processes will end them",
                    blocked,
                )
        elif silence >= self._due:
            self._due = silence + self._period
            self._try()

    def _try(self) -> None:
        try:
            self._renew()
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread goes on
            logger.warning("leases were not renewed while the event loop is blocked: %r", error)


def renew_elsewhere(log: StreamLog, owner: str, held: Mapping[UUID, int]) -> None:
    """Renew leases on an event loop of this thread. What has become of the streams, the blocked
    event loop finds out when it renews them itself.
    """
    if held:
        asyncio.run(_renew(log, owner, held))


async def _renew(log: StreamLog, owner: str, held: Mapping[UUID, int]) -> None:
    async with asyncio.timeout(log.lease):
        await log.start(owner)
        try:
            await log.renew(held)
        finally:
            await log.stop(owner)
