"""The connections of this process that can be cut on purpose, to show that streams are resumed.

It does no I/O: a connection comes with the function that closes it.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

__all__ = ["READ_TIME", "CutPlan", "Cuts", "CuttableConnection"]

# The numbers of packets after which the connections of a stream are cut, from a seed. Pure.

_MOST_PACKETS: Final = 20
# Each connection lasts longer than the one before, so a long answer is not cut without end.
_GROWTH: Final = 1.2


class CutPlan:
    """The plan of one stream; the same for the same seed."""

    __slots__ = ("_factor", "_random")

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._factor = 1.0

    def next(self) -> int:
        """Return the number of packets for the next connection, at least 1."""
        packets = int(self._random.randint(1, _MOST_PACKETS) * self._factor)
        self._factor *= _GROWTH
        return packets


READ_TIME: Final = 0.1
"""Seconds between the last packet of a plan and the cut.

A browser drops what it has received and not yet read when a connection breaks. Without this time
the connections of a plan would bring it nothing.
"""

_MAX_PLANS: Final = 1000  # anybody may send seeds for new streams, so the oldest are dropped


class CuttableConnection:
    """One connection that reads a stream; `left` packets may still be sent, None for any number."""

    __slots__ = ("abort", "left")

    def __init__(self, abort: Callable[[], None], left: int | None) -> None:
        self.abort = abort
        self.left = left

    def sent(self, packets: int) -> None:
        """Count packets that were sent."""
        if self.left is not None:
            self.left -= packets


class Cuts:
    """The connections of all streams, and the plans of those that have one."""

    def __init__(self) -> None:
        self._connections: dict[UUID, set[CuttableConnection]] = {}
        self._plans: dict[UUID, CutPlan] = {}

    @contextmanager
    def reading(self, stream_id: UUID, abort: Callable[[], None]) -> Iterator[CuttableConnection]:
        """Keep a connection while the block runs; a plan of the stream limits its packets."""
        plan = self._plans.get(stream_id)
        connection = CuttableConnection(abort, None if plan is None else plan.next())
        self._connections.setdefault(stream_id, set()).add(connection)
        try:
            yield connection
        finally:
            self._connections[stream_id].discard(connection)
            if not self._connections[stream_id]:
                del self._connections[stream_id]

    def cut(self, stream_id: UUID, seed: int | None = None) -> None:
        """Cut all connections of a stream now, and those that follow by the plan of a seed.

        Without a seed those that follow are not cut.
        """
        self._plans.pop(stream_id, None)
        if seed is not None:
            if len(self._plans) >= _MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[stream_id] = CutPlan(seed)
        for connection in tuple(self._connections.get(stream_id, ())):
            connection.abort()
