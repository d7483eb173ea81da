"""The events of a response and the numbers of their packets, in the bytes of our server. Pure."""

import re
from typing import Final

__all__ = ["last_packet", "packet_of", "split_events"]

# `<stream_id>:<seq>`, and in a durable stream `<stream_id>:<seq>:<epoch>`.
_ID: Final = re.compile(rb"^id: ?[^:\n]*:(\d+)(?::\d+)?\r?$", re.MULTILINE)
_AFTER_EVENT: Final = re.compile(rb"(?<=\n\n)")


def split_events(data: bytes) -> list[bytes]:
    """Return the events of some bytes; the last item is the rest, empty if there is none."""
    return _AFTER_EVENT.split(data)


def packet_of(event: bytes) -> int | None:
    """Return the number in the id of an event, None if it has no number."""
    match = _ID.search(event)
    return None if match is None else int(match[1])


def last_packet(data: bytes) -> int | None:
    """Return the number in the id of the last event that has one."""
    numbers = _ID.findall(data)
    return int(numbers[-1]) if numbers else None
