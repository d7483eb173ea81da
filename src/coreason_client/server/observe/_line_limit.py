"""A limit on how often one kind of log line is written. Pure: the caller brings the time.

Strangers decide how often a server refuses them. Without a limit they would fill the disk with
lines, and writing the lines would cost more than the refusals.
"""

from ...errors import ArgumentError

__all__ = ["LineLimit", "left_out"]


class LineLimit:
    """At most `lines` lines in each period of `seconds`; the rest is counted and not written.

    A period begins with the first line after the previous one ended, so lines that come rarely
    are all written at once.
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
        """Return how many lines were suppressed before this one, None to suppress this one too.

        `now` is in seconds, of a clock that does not go backwards.
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


def left_out(count: int) -> str:
    """Return what a line says at its end about those that were suppressed before it."""
    return f" ({count} more like this were not logged)" if count else ""
