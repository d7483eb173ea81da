"""A clock that counts only the time in which this process ran, to time out the store fairly."""

from typing import NamedTuple

__all__ = ["Mark", "RunClock"]

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
