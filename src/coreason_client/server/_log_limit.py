"""A limit on how often one kind of log line is written. Pure: the caller brings the time.

Strangers decide how often a server refuses them. Without a limit they would fill the disk with
lines, and writing the lines would cost more than the refusals.
"""

from ..errors import ArgumentError

__all__ = ["LineLimit"]


class LineLimit:
    """At most `per_second` lines in each second; the rest is counted and not written.

    A second begins with the first line after the previous one ended, so lines that come rarely
    are all written at once.
    """

    __slots__ = ("_left", "_per_second", "_second_ends", "_suppressed")

    def __init__(self, per_second: int) -> None:
        if per_second < 1:
            raise ArgumentError("per_second", "must be at least 1", per_second)
        self._per_second = per_second
        self._left = 0
        self._second_ends = float("-inf")
        self._suppressed = 0

    def allow(self, now: float) -> int | None:
        """Return how many lines were suppressed before this one, None to suppress this one too.

        `now` is in seconds, of a clock that does not go backwards.
        """
        if now >= self._second_ends:
            self._left = self._per_second
            self._second_ends = now + 1.0
        if not self._left:
            self._suppressed += 1
            return None
        self._left -= 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
