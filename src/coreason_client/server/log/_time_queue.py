"""A queue of items ordered by time; finding the items that are due does not scan the others."""

import heapq
from itertools import count
from typing import Generic, TypeVar

__all__ = ["TimeQueue"]

T = TypeVar("T")


class TimeQueue(Generic[T]):
    """Items with times, in the order of the times; they may be added in any order."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._numbers = count()  # keeps items with equal times in order, and never compares items

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, at: float, item: T) -> None:
        """Add an item with its time."""
        heapq.heappush(self._heap, (at, next(self._numbers), item))

    def take(self, until: float, limit: int) -> list[tuple[float, T]]:
        """Remove and return up to `limit` items with a time up to `until`, each with its time."""
        taken: list[tuple[float, T]] = []
        while self._heap and self._heap[0][0] <= until and len(taken) < limit:
            at, _, item = heapq.heappop(self._heap)
            taken.append((at, item))
        return taken
