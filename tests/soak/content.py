"""The expected content of each packet, which follows from its stream and its number."""

from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple, Self

from coreason_manifest.definitions.presentation import (
    ClosePacket,
    DeltaPacket,
    EventPacket,
    Packet,
    PresentationEventType,
    ProgressUpdate,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..server.peer import envelope

REWIND = "REWIND"
BURST = 5  # packets that are written together; the last one waits for the log


@dataclass(frozen=True, slots=True)
class Order:
    """A stream that the agent is asked to write; it is sent as the text of the message."""

    name: str
    packets: int
    pause: float  # between two bursts
    block: float = 0.0  # seconds for which the agent blocks its event loop after the first packet
    differs: bool = False  # one step of a durable agent writes other text in each run
    rewinds: bool = False  # the client understands REWIND events

    @classmethod
    def lasting(
        cls, name: str, packets: int, seconds: float, block: float = 0.0, **more: bool
    ) -> Self:
        """Return an order for a number of packets, spread evenly over a time."""
        return cls(name, packets, round(seconds * BURST / packets, 4), block, **more)

    @classmethod
    def parse(cls, text: str) -> Self:
        name, packets, pause, block, differs = text.split()
        return cls(name, int(packets), float(pause), float(block), differs == "True")

    @property
    def message(self) -> str:
        """The text of the message, for `parse`."""
        return f"{self.name} {self.packets} {self.pause} {self.block} {self.differs}"

    def request(self) -> ServiceRequest:
        body = envelope(self.message, session=self.name)
        if self.rewinds:
            events = [*PresentationEventType, REWIND]
            body["payload"]["capabilities"] = {"supported_events": events}
        return ServiceRequest.model_validate(body)

    @property
    def parts(self) -> "Parts":
        """The parts of a durable answer."""
        third = self.packets // 3
        ends = (1, third, 2 * third, 3 * third - BURST, self.packets + 1)
        return Parts(*(range(start, end) for start, end in pairwise(ends)))

    def text_of(self, index: int, run: int | None = None) -> str:
        """Return the text of a packet of a durable answer; `run` is that of the step it follows."""
        if not self.differs or index < self.parts.rerun[2] or index in self.parts.resume:
            return text_of(self.name, index)
        return text_of(f"{self.name}~{run}", index)

    def is_right(self, packet: Packet) -> bool:
        """Return True if the packet has the expected content for its number."""
        if packet.seq == self.packets + 1:
            return isinstance(packet, ClosePacket)
        return shown(packet) == (ends_burst(packet.seq), text_of(self.name, packet.seq))


class Parts(NamedTuple):
    """The numbers of the packets of each part of a durable answer."""

    before: range  # in the body
    rerun: range
    resume: range
    after: range  # in the body


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
