"""The mark in a chat stream that a part of the text is no longer valid."""

from dataclasses import dataclass

from coreason_manifest.definitions.presentation import PresentationEventType
from coreason_manifest.definitions.request import ClientCapabilities
from coreason_manifest.definitions.rewind import REWIND

__all__ = ["WITH_REWINDS", "Rewound"]

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
