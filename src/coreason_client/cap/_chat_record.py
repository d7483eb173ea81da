"""The text and the events that a chat stream has received so far. Pure."""

from coreason_manifest.definitions.presentation import (
    DeltaPacket,
    EventPacket,
    Packet,
    PresentationEvent,
)
from coreason_manifest.definitions.rewind import rewound_to

from .rewound import Rewound, starts_over

__all__ = ["ChatRecord"]


class ChatRecord:
    """Collects the text and the events of a stream that starts after packet `start`."""

    def __init__(self, start: int = 0) -> None:
        self._start = start
        self._seq = start
        self._pieces: list[tuple[int, str]] = []
        self._events: list[tuple[int, PresentationEvent | dict[str, object]]] = []
        self._whole = False
        self.exhausted = False
        self.reads_again = False
        """True if the last packet rewinds to before `start`, so the stream has to be read again."""

    @property
    def text(self) -> str:
        return "".join([piece for _, piece in self._pieces])

    @property
    def events(self) -> list[PresentationEvent | dict[str, object]]:
        return [event for _, event in self._events]

    def add(self, piece: "str | Rewound") -> None:
        """Record a piece that is handed out; a rewind drops the pieces that are void."""
        if not isinstance(piece, Rewound):
            self._pieces.append((self._seq, piece))
            return
        if piece.whole and not piece.to_seq:
            self._start = self._seq = 0
        self._pieces = [kept for kept in self._pieces if kept[0] <= piece.to_seq]
        self._events = [kept for kept in self._events if kept[0] <= piece.to_seq]

    def piece_of(self, packet: Packet) -> "str | Rewound | None":
        """Return what a packet is in a chat stream, None if it is not handed out."""
        self._seq = packet.seq
        if isinstance(packet, DeltaPacket):
            return packet.p
        if isinstance(packet, EventPacket):
            to_seq = rewound_to(packet.p)
            if to_seq is not None:
                return self._rewound(to_seq, whole=starts_over(packet))
            self._events.append((packet.seq, packet.p))
        return None

    def _rewound(self, to_seq: int, *, whole: bool) -> Rewound:
        self.reads_again = not whole and to_seq < self._start
        if whole or self.reads_again:
            self._whole = True
            return Rewound("", 0, whole=True)
        valid = "".join([piece for seq, piece in self._pieces if seq <= to_seq])
        return Rewound(valid, to_seq, self._whole)
