"""Readers that wait are woken when streams fail, all of them at once and not too often."""

import asyncio

from ..log.base import StreamLog

__all__ = ["ReaderWake"]

_EVERY = 1.0  # seconds


class ReaderWake:
    """Wakes all readers of a log, at most once a second however often it is asked to.

    Readers whose streams go on send a heartbeat then, so that it must not happen often.
    """

    __slots__ = ("_log", "_loop", "_timer", "_woken_at")

    def __init__(self, log: StreamLog) -> None:
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._woken_at = 0.0

    def soon(self) -> None:
        """Wake the readers as soon as that is allowed; once for all who ask meanwhile."""
        if self._timer is None:
            wait = self._woken_at + _EVERY - self._loop.time()
            self._timer = self._loop.call_later(max(wait, 0.0), self._wake)

    def _wake(self) -> None:
        self._timer, self._woken_at = None, self._loop.time()
        self._log.wake_readers()
