"""Items in the order of their times, so that finding those whose time has come costs no more."""

import heapq
from itertools import count
from typing import Generic, TypeVar

__all__ = ["Due"]

T = TypeVar("T")


class Due(Generic[T]):
    """A queue of items, each with a time; a clock that was set back does not confuse it."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._numbers = count()  # items of one moment keep their order, and are never compared

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, at: float, item: T) -> None:
        """Add an item with its time."""
        heapq.heappush(self._heap, (at, next(self._numbers), item))

    def take(self, until: float, most: int) -> list[tuple[float, T]]:
        """Remove the first items whose time is not after `until`; return them with their times."""
        taken: list[tuple[float, T]] = []
        while self._heap and self._heap[0][0] <= until and len(taken) < most:
            at, _, item = heapq.heappop(self._heap)
            taken.append((at, item))
        return taken
