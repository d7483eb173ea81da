"""Whether an answer came through whole: what was received against what the agent has in its log."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from coreason_manifest.definitions.presentation import Packet

__all__ = ["Verdict", "compare"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The counts; `comparable` is false when the second reading gave another stream."""

    received: int
    logged: int
    lost: int
    doubled: int
    changed: int
    comparable: bool

    @property
    def intact(self) -> bool:
        """Whether every packet of the log arrived once, unchanged, and nothing else did."""
        return self.comparable and not (self.lost or self.doubled or self.changed)

    def sentence(self, cuts: int, reconnects: int) -> str:
        """Say it, with how often the connection was cut."""
        late = cuts - reconnects
        healed = f"{_count(reconnects, 'cut')} healed"
        if late > 0:  # the proxy may strike when everything has already arrived
            healed += f" ({late} more came after the last packet)"
        if not self.comparable:
            return (
                f"{healed}; the service does not answer the same request with the same stream, "
                "so what arrived cannot be compared."
            )
        result = "nothing lost or doubled" if self.intact else self._damage()
        return f"{healed}, {result}: {self.received} packets received, {self.logged} logged."

    def _damage(self) -> str:
        return f"{self.lost} lost, {self.doubled} doubled, {self.changed} changed"


def compare(received: Sequence[Packet], logged: Sequence[Packet]) -> Verdict:
    """Compare the packets of an answer with those of the log, read again without disturbance."""
    got = Counter(packet.seq for packet in received)
    kept = {packet.seq: packet for packet in logged}
    in_order = [packet.seq for packet in received] == sorted(packet.seq for packet in received)
    changed = sum(packet.seq in kept and kept[packet.seq] != packet for packet in received)
    unknown = sum(packet.seq not in kept for packet in received)
    return Verdict(
        received=len(received),
        logged=len(logged),
        lost=sum(seq not in got for seq in kept),
        doubled=sum(count - 1 for count in got.values()),
        changed=changed + unknown + (not in_order),
        comparable={p.stream_id for p in received} == {p.stream_id for p in logged},
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
