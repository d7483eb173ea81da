"""The delay of a batch, so that more calls can share its cost. No I/O.

Most of the cost of a small batch (a commit, a round trip) does not depend on its size. If calls
are independent, some arrive while a batch is running; then more will arrive soon, and a short delay
pays off. A caller that waits for its result before its next call is never delayed: it sends nothing
while its batch is running, and a delay would only cost it time.
"""

__all__ = ["BatchDelay"]

_WEIGHT = 0.1  # of the latest batch in the moving average
_BUSY_SHARE = 0.1  # delay if calls arrive during more than this share of the batches


class BatchDelay:
    """The delay before the next batch of one queue; the caller passes the time in seconds."""

    __slots__ = ("_busy", "_next", "_seconds")

    def __init__(self, seconds: float = 0.002) -> None:
        self._seconds = seconds
        self._next = 0.0  # the earliest start of the next batch
        self._busy = 0.0  # moving average: the share of batches during which calls arrived

    def remaining(self, now: float) -> float:
        """Return how long to delay the next batch."""
        return max(self._next - now, 0.0) if self._busy > _BUSY_SHARE else 0.0

    def batch_started(self, now: float) -> None:
        """Record the start of a batch."""
        self._next = now + self._seconds

    def batch_finished(self, *, more_waiting: bool) -> None:
        """Record the end of a batch, and whether calls arrived while it was running."""
        self._busy += _WEIGHT * (more_waiting - self._busy)
