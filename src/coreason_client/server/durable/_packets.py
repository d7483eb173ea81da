"""The packets of a log as a replay compares them. No I/O."""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic_core import from_json

from ._replay import Logged

__all__ = ["comparable", "logged_packets"]

_DATA = b"\ndata: "
_GENERATED = ("id", "timestamp")  # of an event


def comparable(op: str, payload: Any) -> Any:
    """Return the part of a packet's JSON payload that is the same in every run."""
    if op == "EVENT" and isinstance(payload, dict) and all(map(payload.__contains__, _GENERATED)):
        return {name: value for name, value in payload.items() if name not in _GENERATED}
    return payload


def logged_packets(first_seq: int, entries: Iterable[bytes]) -> Iterator[Logged]:
    """Yield the packets of entries of a log; each entry is a server-sent event with one data line.

    Raises:
        ValueError: an entry is something else.
    """
    for seq, entry in enumerate(entries, first_seq):
        _, found, data = entry.partition(_DATA)
        if not found:
            raise ValueError(f"entry {seq} is not a packet")
        packet = from_json(data)
        try:
            op, payload = packet["op"], packet["p"]
        except (KeyError, TypeError):
            raise ValueError(f"entry {seq} is not a packet") from None
        yield Logged(seq, op, comparable(op, payload))
