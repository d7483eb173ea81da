"""The complete answer that `ask` returns."""

from dataclasses import dataclass
from typing import Self

from coreason_manifest.definitions.presentation import (
    EventPacket,
    Packet,
    PresentationEvent,
    PresentationEventType,
    StreamOpCode,
)
from coreason_manifest.definitions.request import ClientCapabilities
from coreason_manifest.definitions.rewind import REWIND, rewound_to
from coreason_manifest.definitions.service import ServiceRequest

__all__ = [
    "WITH_REWINDS",
    "Answer",
    "Rewound",
    "accepts_rewinds",
    "is_rewind",
    "rewind_to_start",
    "starts_over",
]


class Answer(str):
    """The text of a complete answer: a string with the conversation id and the events.

    Attributes:
        conversation_id: pass it to the next `ask` or `chat` to continue the conversation.
        events: the events that came with the text: citations, progress, media and the like.
    """

    __slots__ = ("conversation_id", "events")

    conversation_id: str
    events: list[PresentationEvent | dict[str, object]]

    def __new__(
        cls,
        text: str,
        *,
        conversation_id: str,
        events: list[PresentationEvent | dict[str, object]],
    ) -> Self:
        """Create an answer from its text."""
        answer = super().__new__(cls, text)
        answer.conversation_id = conversation_id
        answer.events = events
        return answer

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]:
        """Return the arguments that `copy` and `pickle` need."""
        return (str(self),), {"conversation_id": self.conversation_id, "events": self.events}


# The mark in a chat stream that a part of the text is no longer valid.

WITH_REWINDS = ClientCapabilities(supported_events=[*PresentationEventType, REWIND])
"""The capabilities of a client that understands REWIND events: all other events too."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """A part of the text is void, because the agent was restarted and writes it anew.

    A chat stream with `rewinds=True` yields it between the pieces of text.

    Attributes:
        text: the text that is still valid; show it instead of what was shown so far.
        to_seq: the number of the last packet that is still valid.
        whole: the stream is read again from its start, because it was resumed after that packet,
            or because the server has lost packets. Text from before this stream was resumed is
            void too: from here on, `text` is all that is valid.
    """

    text: str
    to_seq: int
    whole: bool = False


def accepts_rewinds(request: ServiceRequest) -> bool:
    """Return True if a request says that its client understands REWIND events."""
    capabilities = request.payload.capabilities
    return capabilities is not None and REWIND in capabilities.supported_events


def is_rewind(packet: Packet) -> bool:
    """Return True if a packet makes text before it void."""
    return isinstance(packet, EventPacket) and rewound_to(packet.p) is not None


def rewind_to_start(packet: Packet) -> EventPacket:
    """Return the REWIND event with the number 0 before the first packet of a reread."""
    return EventPacket(
        stream_id=packet.stream_id,
        seq=0,
        op=StreamOpCode.EVENT,
        t=packet.t,
        p={"type": REWIND, "data": {"to_seq": 0}},
    )


def starts_over(packet: Packet) -> bool:
    """Return True if a packet is an event of `rewind_to_start`."""
    if packet.seq or not isinstance(packet, EventPacket):
        return False
    return rewound_to(packet.p) == 0
