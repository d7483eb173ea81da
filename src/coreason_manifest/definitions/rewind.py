"""REWIND events: a restarted agent makes earlier packets of its stream void."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from .presentation import MAX_SEQ, PresentationEvent, StreamOpCode, StreamPacket

__all__ = ["REWIND", "rewound_to", "valid_packets"]

P = TypeVar("P", bound=StreamPacket)

REWIND = "REWIND"
"""The type of the event that makes earlier packets of its stream void."""


def rewound_to(event: PresentationEvent | Mapping[str, Any]) -> int | None:
    """Return the last number that is still valid after a REWIND event, None for any other event.

    An agent may use the name for its own event, so one without a usable number is not a
    rewind.
    """
    if isinstance(event, PresentationEvent) or event.get("type") != REWIND:
        return None
    data = event.get("data")
    to_seq = data.get("to_seq") if isinstance(data, dict) else None
    return to_seq if type(to_seq) is int and 0 <= to_seq <= MAX_SEQ else None


def valid_packets(packets: Iterable[P]) -> list[P]:
    """Return the packets that no later REWIND event makes void, without those events."""
    valid: list[P] = []
    for packet in packets:
        to_seq = rewound_to(packet.p) if packet.op is StreamOpCode.EVENT else None
        if to_seq is None:
            valid.append(packet)
        else:
            valid = [kept for kept in valid if kept.seq <= to_seq]
    return valid
