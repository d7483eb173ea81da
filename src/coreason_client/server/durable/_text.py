"""The valid text of a stream: what is left of its packets after rewinds. No I/O."""

from ._replay import Logged

__all__ = ["REWIND", "ValidText"]

REWIND = "REWIND"
"""The type of the event that makes earlier packets void."""


class ValidText:
    """Collects the text of packets, and drops what a rewind makes void."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        # By the number of their packet. A list of pairs would be a new object for each packet,
        # which the garbage collector would have to visit.
        self._pieces: dict[int, str] = {}

    def __str__(self) -> str:
        return "".join(self._pieces.values())

    def add(self, seq: int, text: str) -> None:
        """Add the text of a packet."""
        self._pieces[seq] = text

    def rewind(self, to_seq: int) -> None:
        """Drop the text of the packets after a number."""
        self._pieces = {seq: text for seq, text in self._pieces.items() if seq <= to_seq}

    def follow(self, packet: Logged) -> None:
        """Add a packet of the log, or rewind."""
        if packet.op == "DELTA":
            self.add(packet.seq, packet.content)
        elif packet.op == "EVENT" and packet.content.get("type") == REWIND:
            self.rewind(packet.content["data"]["to_seq"])
