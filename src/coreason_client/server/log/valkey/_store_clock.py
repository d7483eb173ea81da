"""The clock of the store, as this process knows it."""

import time
from collections.abc import Callable

__all__ = ["StoreClock"]


def _steady() -> float:
    """Return seconds that go on while the machine sleeps, where the system can tell them."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class StoreClock:
    """Seconds since 1970 by the clock of the store, however wrong the one of this machine is.

    It adds an offset to a local clock that nobody sets. A measurement says that the store's clock
    showed `store` at some moment between `sent` and `received`, which bounds the offset from both
    sides. An offset within the bounds is kept, and one outside moves to the nearer bound. So after
    each measurement the error is at most the duration of that round trip, and a slow round trip
    does not spoil what a fast one found.
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
        """Return the local time in which `measured` expects its moments."""
        return self._local()

    def measured(self, sent: float, received: float, store: float) -> None:
        """Record that the clock of the store showed this between two local moments."""
        low, high = store - received, store - sent
        if self._offset is None:
            self._offset = (low + high) / 2
        else:
            self._offset = min(max(self._offset, low), high)
