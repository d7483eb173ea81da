"""Wakes all waiting readers when streams fail, and spreads their reconnections."""

import asyncio
import random
from collections.abc import Callable

from ..log.base import StreamLog

__all__ = ["ReaderWake"]

_INTERVAL = 1.0  # seconds
_RECONNECT_AFTER_MS = (500, 2000)


class ReaderWake:
    """Wakes all readers of a log, at most once a second.

    A woken reader whose stream goes on sends a heartbeat, so this must not happen often.
    """

    __slots__ = ("_jitter", "_log", "_loop", "_timer", "_woken_at")

    def __init__(self, log: StreamLog, jitter: Callable[[], float] = random.random) -> None:
        self._log = log
        self._jitter = jitter
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._woken_at = 0.0

    def schedule(self) -> None:
        """Wake the readers as soon as the rate allows; calls until then are combined."""
        if self._timer is None:
            wait = self._woken_at + _INTERVAL - self._loop.time()
            self._timer = self._loop.call_later(max(wait, 0.0), self._wake)

    def reconnect_ms(self) -> int:
        """Return a random delay for a reader, so that not all reconnect at the same time."""
        least, most = _RECONNECT_AFTER_MS
        return round(least + (most - least) * self._jitter())

    def _wake(self) -> None:
        self._timer, self._woken_at = None, self._loop.time()
        self._log.wake_readers()
