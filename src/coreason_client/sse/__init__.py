"""Server-sent events by the WHATWG standard: bytes to events and events to bytes."""

from ._decode import ServerSentEvent, SSEDecoder, SSEEventTooLarge, parse_sse_stream
from ._event import encode_comment, encode_event

__all__ = [
    "SSEDecoder",
    "SSEEventTooLarge",
    "ServerSentEvent",
    "encode_comment",
    "encode_event",
    "parse_sse_stream",
]
