"""Compares the packets that were received with those that the agent has logged. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from coreason_manifest.definitions.presentation import Packet

__all__ = ["DeliveryReport", "compare", "interruptions"]


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """The result; `same_stream` is False if the second request got another stream."""

    received: int
    logged: int
    lost: int
    duplicated: int
    changed: int
    same_stream: bool

    @property
    def intact(self) -> bool:
        """True if exactly the logged packets arrived: each once, unchanged and in order."""
        return self.same_stream and not (self.lost or self.duplicated or self.changed)

    def summary(self, cuts: int, reconnects: int, kills: int = 0) -> str:
        """Return a sentence about the result, the cuts of the connection and the agent's kills."""
        resumed = _resumed(cuts, reconnects, kills)
        if not self.same_stream:
            return (
                f"{resumed}. The answer cannot be checked, because the service does not return "
                "the same stream for the same request."
            )
        result = "nothing lost or duplicated" if self.intact else self._damage()
        return f"{resumed}, {result}: {self.received} packets received, {self.logged} logged."

    def _damage(self) -> str:
        return f"{self.lost} lost, {self.duplicated} duplicated, {self.changed} changed"


def compare(received: Sequence[Packet], logged: Sequence[Packet]) -> DeliveryReport:
    """Compare the received packets with the log, which was read without the proxy."""
    got = Counter(packet.seq for packet in received)
    in_log = {packet.seq: packet for packet in logged}
    in_order = [packet.seq for packet in received] == sorted(packet.seq for packet in received)
    changed = sum(packet.seq in in_log and in_log[packet.seq] != packet for packet in received)
    unknown = sum(packet.seq not in in_log for packet in received)
    return DeliveryReport(
        received=len(received),
        logged=len(logged),
        lost=sum(seq not in got for seq in in_log),
        duplicated=sum(count - 1 for count in got.values()),
        changed=changed + unknown + (not in_order),
        same_stream={p.stream_id for p in received} == {p.stream_id for p in logged},
    )


def interruptions(cuts: int, kills: int) -> str:
    """Return a line about an answer that is being written, empty if nothing has happened."""
    parts = (("connection cuts", cuts), ("kills of the agent", kills))
    return ", ".join(f"{name} so far: {number}" for name, number in parts if number)


def _resumed(cuts: int, reconnects: int, kills: int) -> str:
    if kills:  # a kill ends the connection too, if there is one at that time
        both = f"{_count(cuts, 'cut')} of the connection and {_count(kills, 'kill')} of the agent"
        return f"Resumed after {both}"
    resumed = f"Resumed after {_count(reconnects, 'cut')}"
    after_end = cuts - reconnects
    if after_end > 0:  # the proxy may cut when everything has already arrived
        resumed += f" ({after_end} more came after the last packet)"
    return resumed


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
