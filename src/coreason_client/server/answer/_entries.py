"""Entries of a log, which are server-sent events of CAP, as packets. No I/O.

Most entries are pieces of text. Their JSON is cut out of the entry and written into the frame of
another protocol, without being parsed. `engine/_packets.py` writes the members of a
packet in one order, so the first occurrence of a name is the member itself and never a text.
"""

from collections.abc import Iterable
from typing import Any, Final

from pydantic_core import from_json

from coreason_manifest.definitions.rewind import rewound_to

_DATA: Final = b"\ndata: "
_DELTA: Final = b',"op":"DELTA","t":"'
_OP: Final = b',"op":"'
_PAYLOAD: Final = b',"p":'
_END: Final = b"}\n\n"
_REWIND: Final = b'"REWIND"'


def split_entries(body: bytes) -> list[bytes]:
    """Split entries that were joined."""
    return body.split(b"\n\n")[:-1]


def delta_json(entry: bytes) -> bytes | None:
    """Return the text of an entry as JSON, with its quotes; None for any other packet."""
    at = entry.find(_OP)
    if not entry.startswith(_DELTA, at):
        return None
    return entry[entry.index(_PAYLOAD, at) + len(_PAYLOAD) : entry.rindex(b"}")]


def single_delta(body: bytes) -> bytes | None:
    """Return the text of entries that were joined, as JSON, if they are one piece of text."""
    at = body.find(_OP)
    if not body.startswith(_DELTA, at) or body.find(_END, at) != len(body) - len(_END):
        return None
    return body[body.index(_PAYLOAD, at) + len(_PAYLOAD) : -len(_END)]


def as_packet(entry: bytes) -> dict[str, Any]:
    """Return the packet of an entry as a JSON object."""
    packet: dict[str, Any] = from_json(entry.partition(_DATA)[2])
    return packet


def has_rewind(entries: Iterable[bytes]) -> bool:
    """Return True if one of the entries is a REWIND event."""
    return any(_rewound_to(entry) is not None for entry in entries)


def valid_entries(entries: Iterable[bytes]) -> list[tuple[int, bytes]]:
    """Return the entries of a stream that no REWIND makes void, with their numbers."""
    valid: list[tuple[int, bytes]] = []
    for seq, entry in enumerate(entries, 1):
        to_seq = _rewound_to(entry)
        if to_seq is None:
            valid.append((seq, entry))
        else:
            valid = [kept for kept in valid if kept[0] <= to_seq]
    return valid


def _rewound_to(entry: bytes) -> int | None:
    if _REWIND not in entry or delta_json(entry) is not None:
        return None
    packet = as_packet(entry)
    return rewound_to(packet["p"]) if packet["op"] == "EVENT" else None
