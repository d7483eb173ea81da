"""The encoder of `application/vnd.amazon.eventstream`. Pure."""

from collections.abc import Mapping
from struct import pack
from zlib import crc32

__all__ = ["encode", "frame"]


def encode(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one frame, with headers that are text."""
    return frame(b"".join(map(_header, headers, headers.values())), payload)


def frame(headers: bytes, payload: bytes) -> bytes:
    """Return one frame with the bytes of its headers, and both checksums."""
    lengths = pack(">II", 16 + len(headers) + len(payload), len(headers))
    start = lengths + pack(">I", crc32(lengths)) + headers + payload
    return start + pack(">I", crc32(start))


def _header(name: str, value: str) -> bytes:
    content = value.encode()
    return bytes([len(name)]) + name.encode() + b"\7" + pack(">H", len(content)) + content
