"""What packet `seq` of a stream says: readers know it before it comes."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from coreason_manifest.definitions.presentation import (
    ClosePacket,
    DeltaPacket,
    EventPacket,
    Packet,
    ProgressUpdate,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..server.peer import envelope

BURST = 5  # packets that leave together; the last of them waits for the log


@dataclass(frozen=True, slots=True)
class Order:
    """What the agent is asked for; it travels as the text of the message."""

    name: str
    packets: int
    pause: float  # between two bursts
    block: float = 0.0  # seconds for which the agent blocks its event loop after the first packet

    @classmethod
    def lasting(cls, name: str, packets: int, seconds: float, block: float = 0.0) -> Self:
        """Return an order for so many packets, spread evenly over so many seconds."""
        return cls(name, packets, round(seconds * BURST / packets, 4), block)

    @classmethod
    def parse(cls, text: str) -> Self:
        name, packets, pause, block = text.split()
        return cls(name, int(packets), float(pause), float(block))

    def request(self) -> ServiceRequest:
        text = f"{self.name} {self.packets} {self.pause} {self.block}"
        return ServiceRequest.model_validate(envelope(text, session=self.name))

    def is_right(self, packet: Packet) -> bool:
        """Whether this is what packet `seq` of the stream must be."""
        if packet.seq == self.packets + 1:
            return isinstance(packet, ClosePacket)
        return shown(packet) == (ends_burst(packet.seq), text_of(self.name, packet.seq))


def ends_burst(seq: int) -> bool:
    return seq % BURST == 0


def text_of(name: str, seq: int) -> str:
    """Return the text of a packet; lengths differ, so that cuts fall anywhere."""
    digest = sha256(f"{name}/{seq}".encode()).hexdigest()
    return f"{name}/{seq}/{digest * (1 + seq % 3)}"


def shown(packet: Packet) -> tuple[bool, str] | None:
    """Return whether a packet is an event, and its text."""
    if isinstance(packet, DeltaPacket):
        return False, packet.p
    if isinstance(packet, EventPacket):
        data = getattr(packet.p, "data", None)
        return (True, data.label) if isinstance(data, ProgressUpdate) else None
    return None
