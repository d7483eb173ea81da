"""An estimate of the clock of the store."""

import time
from collections.abc import Callable

__all__ = ["StoreClock"]


def _steady() -> float:
    """Return seconds that also count while the machine sleeps, if the system supports it."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class StoreClock:
    """Seconds since 1970 by the clock of the store; the system time of this machine is not used.

    It adds an offset to a local monotonic clock. In a measurement the clock of the store showed
    `store` at some time between `sent` and `received`, which gives a lower and an upper bound for
    the offset. An offset within the bounds is kept; otherwise it moves to the nearer bound. So
    after each measurement the error is at most the duration of that round trip, and a slow round
    trip does not make an earlier, better estimate worse.
    """

    __slots__ = ("_local", "_offset")

    def __init__(self, local: Callable[[], float] = _steady) -> None:
        self._local = local
        self._offset: float | None = None

    def __call__(self) -> float:
        """Return the time of the store."""
        if self._offset is None:
            raise RuntimeError("the clock of the store has not been measured")
        return self._local() + self._offset

    def local(self) -> float:
        """Return the local time, for `add_measurement`."""
        return self._local()

    def add_measurement(self, sent: float, received: float, store: float) -> None:
        """Record that the clock of the store showed `store` between two local times."""
        low, high = store - received, store - sent
        if self._offset is None:
            self._offset = (low + high) / 2
        else:
            self._offset = min(max(self._offset, low), high)
