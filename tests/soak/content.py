"""The expected content of each packet, which follows from its stream and its number."""

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

BURST = 5  # packets that are written together; the last one waits for the log


@dataclass(frozen=True, slots=True)
class Order:
    """A stream that the agent is asked to write; it is sent as the text of the message."""

    name: str
    packets: int
    pause: float  # between two bursts
    block: float = 0.0  # seconds for which the agent blocks its event loop after the first packet

    @classmethod
    def lasting(cls, name: str, packets: int, seconds: float, block: float = 0.0) -> Self:
        """Return an order for a number of packets, spread evenly over a time."""
        return cls(name, packets, round(seconds * BURST / packets, 4), block)

    @classmethod
    def parse(cls, text: str) -> Self:
        name, packets, pause, block = text.split()
        return cls(name, int(packets), float(pause), float(block))

    def request(self) -> ServiceRequest:
        text = f"{self.name} {self.packets} {self.pause} {self.block}"
        return ServiceRequest.model_validate(envelope(text, session=self.name))

    def is_right(self, packet: Packet) -> bool:
        """Return True if the packet has the expected content for its number."""
        if packet.seq == self.packets + 1:
            return isinstance(packet, ClosePacket)
        return shown(packet) == (ends_burst(packet.seq), text_of(self.name, packet.seq))


def ends_burst(seq: int) -> bool:
    return seq % BURST == 0


def text_of(name: str, seq: int) -> str:
    """Return the text of a packet; lengths vary, so cuts occur at any position."""
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
