"""Server-sent events by the WHATWG standard: bytes to events and events to bytes."""

from ._decode import ServerSentEvent, SSEDecoder, SSEEventTooLarge
from ._encode import encode_comment, encode_event
from ._stream import parse_sse_stream

__all__ = [
    "SSEDecoder",
    "SSEEventTooLarge",
    "ServerSentEvent",
    "encode_comment",
    "encode_event",
    "parse_sse_stream",
]
