"""Time in which this process ran: the measure of how long the store has been silent."""

from typing import NamedTuple

__all__ = ["Mark", "RunClock"]

_MOST_INTERVALS = 2  # that one tick counts


class Mark(NamedTuple):
    """A moment: how long the process had run, and how long it had been blocked."""

    now: float
    blocked: float


class RunClock:
    """Counts the seconds in which the event loop turned, and no others.

    `tick` is called about every `interval` seconds while a command is under way. When the process
    was frozen, or a callback blocked the event loop, the next tick comes late; it counts for two
    intervals, and the rest is added to `blocked`. A late tick still counts for something, so a
    process that is always short of CPU notices a silent store too, only later.

    A reply that arrived while the process did not run is read in the same turn of the event loop
    as the late tick, or in the next one. So `passed` compares with the tick before the last:
    whatever had arrived by then has been handled.
    """

    __slots__ = ("_last", "_settled", "blocked", "interval", "now")

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.now = 0.0
        self.blocked = 0.0
        self._settled = 0.0
        self._last = 0.0

    def resume(self, at: float) -> None:
        """Start to count at this time of the event loop; the time without ticks is not counted."""
        self._last = at
        self._settled = self.now

    def tick(self, at: float) -> None:
        """Count the time since the last tick."""
        elapsed = max(at - self._last, 0.0)
        counted = min(elapsed, _MOST_INTERVALS * self.interval)
        self._last = at
        self._settled = self.now
        self.now += counted
        self.blocked += elapsed - counted

    def mark(self) -> Mark:
        """Return this moment."""
        return Mark(self.now, self.blocked)

    def passed(self, since: float, seconds: float) -> bool:
        """Return True if so many seconds had passed since then at the tick before the last."""
        return self._settled - since >= seconds
