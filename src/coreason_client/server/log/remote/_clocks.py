"""The clock of the store, estimated, and the clocks of its runs."""

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

# A clock that counts only the time in which this process ran, to time out the store fairly.

_MAX_INTERVALS = 2  # counted for one tick


class Mark(NamedTuple):
    """A point in time: how long the process had run, and how long it had been blocked."""

    now: float
    blocked: float


class RunClock:
    """Counts only the seconds in which the event loop ran.

    `tick` is called about every `interval` seconds while a command has no reply. If the process
    was suspended, or a callback blocked the event loop, the next tick is late. It counts as two
    intervals at most, and the rest is added to `blocked`. Because a late tick still counts, a
    process that is always short of CPU also notices a silent store, only later.

    A reply that arrived while the process did not run is read in the same iteration of the event
    loop as the late tick, or in the next one. So `passed` compares with the tick before the last:
    all data that had arrived by then has been read.
    """

    __slots__ = ("_last", "_settled", "blocked", "interval", "now")

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.now = 0.0
        self.blocked = 0.0
        self._settled = 0.0
        self._last = 0.0

    def resume(self, at: float) -> None:
        """Start counting at this time of the event loop; time without ticks does not count."""
        self._last = at
        self._settled = self.now

    def tick(self, at: float) -> None:
        """Count the time since the last tick."""
        elapsed = max(at - self._last, 0.0)
        counted = min(elapsed, _MAX_INTERVALS * self.interval)
        self._last = at
        self._settled = self.now
        self.now += counted
        self.blocked += elapsed - counted

    def mark(self) -> Mark:
        """Return the current point in time."""
        return Mark(self.now, self.blocked)

    def passed(self, since: float, seconds: float) -> bool:
        """Return True if so many seconds had passed since `since` at the tick before the last."""
        return self._settled - since >= seconds


def _steady() -> float:
    """Return seconds that also count while the machine sleeps, if the system supports it."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


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
