"""The numbers of packets after which the connections of a stream are cut, from a seed. Pure."""

import random
from typing import Final

__all__ = ["CutPlan"]

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
