"""The mark in a chat stream that a part of the text is no longer valid."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coreason_manifest.definitions.presentation import PresentationEvent, PresentationEventType
from coreason_manifest.definitions.request import ClientCapabilities

__all__ = ["REWIND", "WITH_REWINDS", "Rewound", "rewound_to"]

REWIND = "REWIND"
"""The type of the event that makes a part of a stream void."""

WITH_REWINDS = ClientCapabilities(supported_events=[*PresentationEventType, REWIND])
"""The capabilities of a client that understands REWIND events: all other events too."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """A part of the text is void, because the agent was restarted and writes it anew.

    A chat stream with `rewinds=True` yields it between the pieces of text.

    Attributes:
        text: the text that is still valid; show it instead of what was shown so far.
        to_seq: the number of the last packet that is still valid.
        whole: the stream was resumed after that packet, so it is read again from its start: all
            text is void, also the text that came before this stream was resumed.
    """

    text: str
    to_seq: int
    whole: bool = False


def rewound_to(event: PresentationEvent | Mapping[str, Any]) -> int | None:
    """Return the last valid number of a REWIND event, None for any other event."""
    if isinstance(event, PresentationEvent) or event.get("type") != REWIND:
        return None
    data = event.get("data")
    to_seq = data.get("to_seq") if isinstance(data, dict) else None
    return to_seq if type(to_seq) is int and to_seq >= 0 else None
