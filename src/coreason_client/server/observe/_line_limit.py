"""A limit on how often one kind of log line is written. Pure: the caller has the clock.

Clients can cause any number of refusals. Without a limit the log lines would fill the disk, and
writing them would cost more than the refusals.
"""

from ...errors import ArgumentError

__all__ = ["LineLimit", "suppressed_suffix"]


class LineLimit:
    """Allows `lines` lines in each period of `seconds`, and counts the others.

    A period begins with the first line after the end of the previous period, so rare lines are all
    written.
    """

    __slots__ = ("_left", "_lines", "_period_ends", "_seconds", "_suppressed")

    def __init__(self, lines: int, seconds: float = 1.0) -> None:
        if lines < 1:
            raise ArgumentError("lines", "must be at least 1", lines)
        self._lines = lines
        self._seconds = seconds
        self._left = 0
        self._period_ends = float("-inf")
        self._suppressed = 0

    def allow(self, now: float) -> int | None:
        """Return the number of lines suppressed before this one, or None to suppress this one too.

        `now` is in seconds of a monotonic clock.
        """
        if now >= self._period_ends:
            self._left = self._lines
            self._period_ends = now + self._seconds
        if not self._left:
            self._suppressed += 1
            return None
        self._left -= 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed


def suppressed_suffix(count: int) -> str:
    """Return the end of a log line that gives the number of suppressed lines."""
    return f" ({count} more like this were not logged)" if count else ""
