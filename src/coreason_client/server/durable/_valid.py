"""The valid packets of a stream: a REWIND packet makes those after a number void. No I/O."""

from collections.abc import Collection

from coreason_manifest.definitions.rewind import rewound_to

from ._replay import Logged

__all__ = ["ValidText", "follow_text"]


class ValidText:
    """Collects the texts of packets, and drops the void ones."""

    __slots__ = ("by_seq",)

    def __init__(self) -> None:
        # By the number of their packet. A list of pairs would be a new object for each packet,
        # which the garbage collector would have to visit.
        self.by_seq: dict[int, str] = {}

    @property
    def values(self) -> Collection[str]:
        """The texts of the packets that are valid, in their order."""
        return self.by_seq.values()

    def rewind(self, to_seq: int) -> None:
        """Drop the texts of the packets after a number."""
        self.by_seq = {seq: value for seq, value in self.by_seq.items() if seq <= to_seq}


def follow_text(text: ValidText, packet: Logged) -> None:
    """Add the text of the next packet of a log, or rewind."""
    if packet.op == "DELTA":
        text.by_seq[packet.seq] = packet.content
    elif packet.op == "EVENT" and (to_seq := rewound_to(packet.content)) is not None:
        text.rewind(to_seq)
