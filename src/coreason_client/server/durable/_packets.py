"""The packets of a log: as a replay compares them, and those that are valid. No I/O.

A REWIND packet makes the packets after a number void.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pydantic_core import from_json

from coreason_manifest.definitions.rewind import rewound_to

from ._replay import Logged

_DATA = b"\ndata: "
_GENERATED = ("id", "timestamp")  # of an event


def comparable(op: str, payload: Any) -> Any:
    """Return the part of a packet's JSON payload that is the same in every run."""
    if op == "EVENT" and isinstance(payload, dict) and all(map(payload.__contains__, _GENERATED)):
        return {name: value for name, value in payload.items() if name not in _GENERATED}
    return payload


def logged_packets(first_seq: int, entries: Iterable[bytes]) -> Iterator[Logged]:
    """Yield the packets of entries of a log; each entry is a server-sent event with one data line.

    Raises:
        ValueError: an entry is something else.
    """
    for seq, entry in enumerate(entries, first_seq):
        _, found, data = entry.partition(_DATA)
        if not found:
            raise ValueError(f"entry {seq} is not a packet")
        packet = from_json(data)
        try:
            op, payload = packet["op"], packet["p"]
        except (KeyError, TypeError):
            raise ValueError(f"entry {seq} is not a packet") from None
        yield Logged(seq, op, comparable(op, payload))


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
