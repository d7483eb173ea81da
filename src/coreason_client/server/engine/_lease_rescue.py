"""Renewal of leases while the event loop is blocked, for at most a minute.

A process with a blocked event loop is alive, and its agents may continue soon, so other processes
should not end its streams. After a minute without progress the process counts as stuck: its leases
expire, and other processes end its streams so that the readers see an error.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from ..log.base import StreamLog

__all__ = ["MAX_BLOCKED", "LeaseRescue", "renew_in_thread"]

logger = logging.getLogger("coreason_client.server")

MAX_BLOCKED: Final = 60.0  # seconds


class LeaseRescue:
    """Decides when to call `renew` while the event loop is blocked."""

    def __init__(self, period: float, renew: Callable[[], None]) -> None:
        self._period = period
        self._renew = renew
        self._unresponsive = 0.0
        self._due = period
        self._given_up = False

    def check(self, unresponsive: float, blocked: float) -> None:
        """Renew the leases if it is time.

        `unresponsive` is how many seconds the loop has made no progress, and `blocked` how many of
        them the process was able to run.
        """
        if unresponsive < self._unresponsive:  # a new block has begun
            self._due, self._given_up = self._period, False
        self._unresponsive = unresponsive
        if blocked > MAX_BLOCKED:
            if not self._given_up:
                self._given_up = True
                logger.error(
                    "the event loop has made no progress for %.0f s: the leases of its streams are "
                    "no longer renewed, and other processes will end the streams",
                    blocked,
                )
        elif unresponsive >= self._due:
            self._due = unresponsive + self._period
            self._try()

    def _try(self) -> None:
        try:
            self._renew()
        except Exception as error:  # noqa: BLE001 - the thread must go on
            logger.warning("leases could not be renewed while the event loop is blocked: %r", error)


def renew_in_thread(log: StreamLog, owner: str, held: Mapping[UUID, int]) -> None:
    """Renew leases on a new event loop in this thread.

    The result is ignored: the blocked event loop gets it when it renews the leases itself.
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
