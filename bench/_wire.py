"""The packets on the wire: a stream of DELTA packets, with an optional CLOSE."""

import json
from uuid import UUID

__all__ = [
    "PACKET_BYTES",
    "SSE_HEAD",
    "chunk",
    "chunked",
    "close",
    "events",
    "packets",
    "text",
    "tokens",
]

PACKET_BYTES = 210
_STREAM = UUID("0197a3c2-5be1-7d40-9f0e-6c1d2a8b4e57")
_WORDS = "The report says that revenue grew in every region, and most of all where it was least"

SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def packets(count: int, stream: UUID = _STREAM) -> list[bytes]:
    """Return the JSON of so many packets, each of the same size."""
    return [_compact(_delta(seq, stream)) for seq in range(count)]


def tokens(count: int, token: str, stream: UUID = _STREAM) -> list[bytes]:
    """Return the JSON of so many packets that carry one token each."""
    return [_compact(_delta(seq, stream) | {"p": token}) for seq in range(count)]


def close(seq: int, stream: UUID = _STREAM) -> bytes:
    """Return the JSON of the packet that ends a stream."""
    return _compact(_delta(seq, stream) | {"op": "CLOSE", "p": {"reason": "complete"}})


def text() -> str:
    """Return a text that makes a packet of the same size, up to the digits of its number."""
    return str(_delta(0, _STREAM)["p"])


def _delta(seq: int, stream: UUID) -> dict[str, object]:
    packet: dict[str, object] = {
        "stream_id": str(stream),
        "seq": seq,
        "op": "DELTA",
        "t": f"2026-01-05T09:{seq // 1000 % 60:02}:{seq % 60:02}.{seq % 1_000_000:06}Z",
        "p": "",
    }
    room = PACKET_BYTES - len(_compact(packet))
    packet["p"] = (_WORDS * 2)[seq % 7 :][:room]
    return packet


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def events(
    payloads: list[bytes],
    *,
    with_ids: bool = False,
    event_type: str | None = None,
    stream: UUID = _STREAM,
) -> list[bytes]:
    """Wrap each packet as an event, with the id that a resumable server gives it or without."""
    head = b"" if event_type is None else b"event: %b\n" % event_type.encode()
    if with_ids:
        return [
            b"%bid: %b:%d\ndata: %b\n\n" % (head, str(stream).encode(), seq, payload)
            for seq, payload in enumerate(payloads)
        ]
    return [b"%bdata: %b\n\n" % (head, payload) for payload in payloads]


def chunked(stream: list[bytes], size: int) -> list[bytes]:
    """Cut the stream into chunks of a size, whatever it contains."""
    whole = b"".join(stream)
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def chunk(data: bytes) -> bytes:
    """Frame data as one chunk of an HTTP/1.1 body; no data ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
