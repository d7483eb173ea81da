"""The text and the events that a chat stream has received so far. Pure."""

from coreason_manifest.definitions.presentation import (
    DeltaPacket,
    EventPacket,
    Packet,
    PresentationEvent,
)

__all__ = ["ChatRecord"]


class ChatRecord:
    """Collects the text and the events of a stream."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.exhausted = False
        self.events: list[PresentationEvent | dict[str, object]] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add_text(self, text: str) -> str:
        self._pieces.append(text)
        return text

    def text_of(self, packet: Packet) -> str | None:
        """Return the text of a DELTA packet, None for other packets; record an event."""
        if isinstance(packet, DeltaPacket):
            return packet.p
        if isinstance(packet, EventPacket):
            self.events.append(packet.p)
        return None
