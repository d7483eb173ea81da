"""The sequence numbers that have arrived in one stream. Pure.

A server may leave numbers out, so a number that is not above the last one need not be a duplicate.
Only a number that has arrived before may be dropped; a number that was skipped and comes late
belongs to a packet that was never delivered.
"""

from bisect import bisect_right

__all__ = ["SequenceNumbers"]


class SequenceNumbers:
    """The numbers that arrived: all from `first` to the last one, except the skipped ranges."""

    __slots__ = ("_first", "_gap_ends", "_gap_starts")

    def __init__(self, first: int) -> None:
        self._first = first
        # Two sorted lists of the same length. They stay empty unless a server leaves numbers out.
        self._gap_starts: list[int] = []
        self._gap_ends: list[int] = []

    def skip(self, last: int, following: int) -> None:
        """Record that the numbers between `last` and `following` did not arrive."""
        self._gap_starts.append(last + 1)
        self._gap_ends.append(following - 1)

    def arrived(self, seq: int) -> bool:
        """Return True if `seq`, which is not above the last number, has arrived before."""
        if seq < self._first:
            return False
        gap = bisect_right(self._gap_starts, seq) - 1
        return gap < 0 or seq > self._gap_ends[gap]
