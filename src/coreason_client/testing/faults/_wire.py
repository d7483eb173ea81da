"""Packets, server-sent events and HTTP/1.1 framing as bytes; nothing here does I/O."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

BOM: Final = b"\xef\xbb\xbf"
EVENT_STREAM: Final = "text/event-stream"
LAST_CHUNK: Final = b"0\r\n\r\n"

_EPOCH: Final = datetime(2025, 1, 1, tzinfo=UTC)
_WITHOUT_BODY: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Packet:
    """One numbered packet of a logical stream."""

    stream_id: str
    seq: int
    op: str
    p: str | dict[str, Any]

    @property
    def event_id(self) -> str:
        """The SSE id under which this packet is sent."""
        return f"{self.stream_id}:{self.seq}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of its JSON."""
        # The time is a function of the number, so that two runs write the same bytes.
        t = (_EPOCH + timedelta(milliseconds=self.seq)).isoformat(timespec="milliseconds")
        return {"stream_id": self.stream_id, "seq": self.seq, "op": self.op, "t": t, "p": self.p}

    def json(self) -> bytes:
        """Return compact JSON, with text outside ASCII left as UTF-8."""
        return compact(self.fields())


@dataclass(frozen=True, slots=True)
class File:
    """A file that a browser can load."""

    content_type: str
    content: bytes


def compact(value: object) -> bytes:
    """Return a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def number(
    stream_id: str, payloads: Iterable[tuple[str, str | dict[str, Any]]], *, first: int = 1
) -> list[Packet]:
    """Give each (op, payload) the next sequence number."""
    return [Packet(stream_id, seq, op, p) for seq, (op, p) in enumerate(payloads, first)]


def block(data: bytes, event_id: str | None = None, *, eol: bytes = b"\n") -> bytes:
    """Return one complete SSE event with the data on a single line."""
    head = b"" if event_id is None else b"id: " + event_id.encode() + eol
    return head + b"data: " + data + eol + eol


def sse(packet: Packet, *, with_id: bool = True, eol: bytes = b"\n") -> bytes:
    """Return a packet as one SSE event."""
    return block(packet.json(), packet.event_id if with_id else None, eol=eol)


def chunk(data: bytes) -> bytes:
    """Return data as one HTTP chunk; empty data gives nothing, as it would end the body."""
    return chunk_header(len(data)) + data + b"\r\n" if data else b""


def chunk_header(size: int) -> bytes:
    """Return the line that announces a chunk of this size."""
    return b"%x\r\n" % size


def reason(status: int) -> str:
    """Return the phrase that goes with a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def response_head(status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a status line, these headers and the blank line."""
    lines = [f"HTTP/1.1 {status} {reason(status)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def stream_headers(
    content_type: str | None = EVENT_STREAM,
    extra: Mapping[str, str] | None = None,
    *,
    chunked: bool = True,
) -> dict[str, str]:
    """Return the headers of a streamed body, chunked or ended by the end of the connection."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    headers["Cache-Control"] = "no-cache"
    headers |= {"Transfer-Encoding": "chunked"} if chunked else {"Connection": "close"}
    return headers | dict(extra or {})


def file_response(file: File | None) -> bytes:
    """Return a whole response with a file, or 404."""
    if file is None:
        return response_head(404, {"Content-Length": "0"})
    fields = {"Content-Type": file.content_type, "Content-Length": str(len(file.content))}
    return response_head(200, fields) + file.content


def has_body(status: int) -> bool:
    """Return True if a response with this status may have a body."""
    return status >= 200 and status not in _WITHOUT_BODY


def pieces(data: bytes, sizes: Iterator[int]) -> Iterator[bytes]:
    """Cut data into pieces of the given sizes, one after the other."""
    start = 0
    while start < len(data):
        size = next(sizes)
        yield data[start : start + size]
        start += size
