"""From the bytes of a streamed answer to its events: SSE, NDJSON, or one JSON value. Pure.

A provider may answer a request for a stream with the whole answer at once. Which of the two it is
shows in the first byte that is not blank: JSON never begins as a server-sent event does.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import Literal

from ..sse import ServerSentEvent, SSEDecoder, SSEEventTooLarge
from ._lines import LineDecoder, LineTooLong

__all__ = ["Frames", "TooLarge"]

_MAX_EVENT_BYTES = 10_000_000
_MAX_WHOLE_BYTES = 64 * 1024 * 1024
_MOST_BLANKS = 65_536
_BLANK = b" \t\r\n\xef\xbb\xbf"  # what may stand before JSON, a byte order mark included
_FIELD_STARTS = b"deir:"  # of data, event, error, id and retry, and of comments
_EVENT_FIELDS = (b"error",)  # how llama.cpp's server reports an error in mid-stream


class TooLarge(Exception):
    """An event, or a complete answer, is larger than its limit."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} is larger than {limit} bytes")


class _Form(Enum):
    UNKNOWN = auto()
    STREAM = auto()
    WHOLE = auto()


_STREAM = _Form.STREAM


class Frames:
    """Decodes the body of one response; `claims_json` is what its content type says."""

    __slots__ = ("_body", "_claims_json", "_form", "_lines", "_sse")

    def __init__(self, framing: Literal["sse", "ndjson"], *, claims_json: bool = False) -> None:
        ndjson = framing == "ndjson"
        self._lines = LineDecoder(_MAX_EVENT_BYTES) if ndjson else None
        self._sse = SSEDecoder(_MAX_EVENT_BYTES, event_fields=_EVENT_FIELDS)
        self._form = _Form.STREAM if ndjson else _Form.UNKNOWN
        self._claims_json = claims_json
        self._body = bytearray()  # of what is, or may be, a whole answer

    def events(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Take bytes and iterate over the events that are complete now.

        Raises:
            TooLarge: an event or the complete answer is larger than its limit; all events before
                it were handed out.
        """
        if self._form is not _STREAM:
            chunk = self._streamed(chunk)
        try:
            if self._lines is None:
                yield from self._sse.events(chunk)
            else:
                yield from map(ServerSentEvent, self._lines.lines(chunk))
            return
        except (SSEEventTooLarge, LineTooLong):
            pass
        # Not inside `except`: the context of the error would hold what the provider sent.
        raise TooLarge("an event", _MAX_EVENT_BYTES)

    def flush(self) -> list[ServerSentEvent]:
        """Return the last line of NDJSON, which may have no end."""
        return [] if self._lines is None else list(map(ServerSentEvent, self._lines.flush()))

    def whole(self) -> bytes | None:
        """Return the complete answer after a clean end, None when it was a stream."""
        is_stream = self._form is _Form.STREAM
        if is_stream or (self._form is _Form.UNKNOWN and not self._claims_json):
            return None
        return bytes(self._body).lstrip(_BLANK)

    def _streamed(self, chunk: bytes) -> bytes:
        """Return the bytes that belong to a stream; those of a whole answer are kept."""
        body = self._body
        body += chunk
        if self._form is _Form.UNKNOWN:
            self._form = self._recognised(body)
        if self._form is _Form.STREAM:
            self._body = bytearray()
            return bytes(body)
        if len(body) > _MAX_WHOLE_BYTES:
            raise TooLarge("the answer", _MAX_WHOLE_BYTES)
        return b""

    def _recognised(self, beginning: bytearray) -> _Form:
        first = beginning.lstrip(_BLANK)[:1]
        if not first:
            return _Form.UNKNOWN if len(beginning) < _MOST_BLANKS else _Form.STREAM
        if first in b"{[" or (self._claims_json and first not in _FIELD_STARTS):
            return _Form.WHOLE
        return _Form.STREAM
