"""An encoder of `application/vnd.amazon.eventstream`, for the tests of the decoder."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from struct import pack
from typing import Any
from uuid import UUID

from coreason_client.testing._models._bedrock_wire import frame

__all__ = ["encode", "event", "exception", "frame"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encode(headers: Mapping[str, Any], payload: bytes) -> bytes:
    """Return one frame; integers are encoded in the largest type."""
    return frame(b"".join(map(_header, headers, headers.values())), payload)


def event(name: str, payload: Any) -> bytes:
    """Return an event as AWS sends it."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode(headers, json.dumps(payload, separators=(",", ":")).encode())


def exception(name: str, payload: Any) -> bytes:
    """Return an exception as AWS sends it."""
    headers = {
        ":exception-type": name,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return encode(headers, json.dumps(payload).encode())


def _header(name: str, value: Any) -> bytes:
    return bytes([len(name.encode())]) + name.encode() + _value(value)


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\0" if value else b"\1"
    if isinstance(value, int):
        return b"\5" + pack(">q", value)
    if isinstance(value, bytes):
        return b"\6" + pack(">H", len(value)) + value
    if isinstance(value, datetime):
        return b"\x08" + pack(">q", round((value - _EPOCH).total_seconds() * 1000))
    if isinstance(value, UUID):
        return b"\x09" + value.bytes
    content = str(value).encode()
    return b"\7" + pack(">H", len(content)) + content
