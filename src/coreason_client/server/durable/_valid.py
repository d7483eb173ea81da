"""The valid packets of a stream: a REWIND packet makes those after a number void. No I/O."""

from collections.abc import Collection
from typing import Generic, TypeVar

from coreason_manifest.definitions.rewind import rewound_to

from ._replay import Logged

__all__ = ["Valid", "follow_text"]

T = TypeVar("T")


class Valid(Generic[T]):
    """Collects one value for some packets, such as their text, and drops the void ones."""

    __slots__ = ("by_seq",)

    def __init__(self) -> None:
        # By the number of their packet. A list of pairs would be a new object for each packet,
        # which the garbage collector would have to visit.
        self.by_seq: dict[int, T] = {}

    @property
    def values(self) -> Collection[T]:
        """The values of the packets that are valid, in their order."""
        return self.by_seq.values()

    @property
    def last(self) -> T | None:
        """The value of the last valid packet that has one, None if there is none."""
        return next(reversed(self.by_seq.values()), None)

    def rewind(self, to_seq: int) -> None:
        """Drop the values of the packets after a number."""
        self.by_seq = {seq: value for seq, value in self.by_seq.items() if seq <= to_seq}


def follow_text(text: Valid[str], packet: Logged) -> None:
    """Add the text of the next packet of a log, or rewind."""
    if packet.op == "DELTA":
        text.by_seq[packet.seq] = packet.content
    elif packet.op == "EVENT" and (to_seq := rewound_to(packet.content)) is not None:
        text.rewind(to_seq)
