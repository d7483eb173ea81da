"""When a batch is held back for a moment, so that more can share what it costs. Pure.

Most of what a small batch costs (a commit, a round trip) is not what it carries. Where callers come
independently of one another, some come while a batch is under way; then more will come soon, and a
short wait pays. A caller that waits for its result before it comes again is never held back: it
never comes meanwhile, and would only lose the time.
"""

__all__ = ["Gather"]

_WEIGHT = 0.1  # of the latest batch
_ENOUGH = 0.1  # the share of batches during which somebody came


class Gather:
    """The rhythm of one queue; the caller brings the time in seconds."""

    __slots__ = ("_busy", "_next", "_seconds")

    def __init__(self, seconds: float = 0.002) -> None:
        self._seconds = seconds
        self._next = 0.0  # the earliest begin of the next batch
        self._busy = 0.0  # a moving average of what `done` was told

    def early(self, now: float) -> float:
        """Return for how long to hold the next batch back."""
        return max(self._next - now, 0.0) if self._busy > _ENOUGH else 0.0

    def begun(self, now: float) -> None:
        """Note the begin of a batch."""
        self._next = now + self._seconds

    def done(self, *, waiting: bool) -> None:
        """Note the end of a batch, and whether something came while it was under way."""
        self._busy += _WEIGHT * (waiting - self._busy)
