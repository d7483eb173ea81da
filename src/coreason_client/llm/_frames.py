"""Decodes the body of a streamed answer: SSE, NDJSON, AWS's event stream, or one JSON value. Pure.

A provider may answer a request for a stream with a complete JSON answer. The first byte that is
not blank distinguishes the two: neither a server-sent event nor a frame of an event stream, which
starts with a zero, begins like a JSON value.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..sse import ServerSentEvent, SSEDecoder, SSEEventTooLarge

if TYPE_CHECKING:
    from ._eventstream import EventFrames


Framing: TypeAlias = Literal["sse", "ndjson", "eventstream"]
"""The format that separates the events of a stream."""

_MAX_EVENT_BYTES = 10_000_000
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""The maximum size of a complete JSON answer."""
_MAX_STREAM_BYTES = 1024 * 1024 * 1024  # framing included: more than any answer has
_MAX_BLANKS = 65_536
_KEPT_BYTES = 4096  # of a stream: an error shows them
_BLANK = b" \t\r\n\xef\xbb\xbf"  # white space and the byte order mark
_STREAM_STARTS = b"\0deir:"  # a frame; or data, event, error, id, retry and comments
_EVENT_FIELDS = (b"error",)  # llama.cpp reports errors within a stream in this field
_FIELDS = frozenset({b"", b"data", b"event", b"id", b"retry", *_EVENT_FIELDS})  # "": a comment


class FrameTooLarge(Exception):
    """An event, a complete answer or a stream exceeds its size limit."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} is larger than {limit} bytes")


class _Form(Enum):
    UNKNOWN = auto()
    STREAM = auto()
    WHOLE = auto()


_STREAM = _Form.STREAM


class FrameDecoder:
    """Decodes the body of one response; `declared_json`: its content type is JSON."""

    __slots__ = ("_binary", "_body", "_claims_json", "_form", "_lines", "_received", "_sse")

    def __init__(self, framing: Framing, *, declared_json: bool = False) -> None:
        ndjson = framing == "ndjson"
        self._lines = LineDecoder(_MAX_EVENT_BYTES) if ndjson else None
        self._binary = _event_frames() if framing == "eventstream" else None
        self._sse = SSEDecoder(_MAX_EVENT_BYTES, event_fields=_EVENT_FIELDS)
        self._form = _Form.STREAM if ndjson else _Form.UNKNOWN
        self._claims_json = declared_json
        self._received = 0  # bytes
        # Bytes that are, or may be, a complete answer; of a stream, its beginning.
        self._body = bytearray()

    def events(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Decode bytes and yield the events that are now complete, also those before an error.

        Raises:
            FrameTooLarge: an event, the complete answer or the stream exceeds its size limit.
            FaultReceived: a frame of an event stream is an error.
            Malformed: an event stream is damaged.
        """
        self._received += len(chunk)
        if self._received > _MAX_STREAM_BYTES:
            raise FrameTooLarge("the stream", _MAX_STREAM_BYTES)
        if self._form is not _STREAM:
            chunk = self._stream_bytes(chunk)
        if self._binary is not None:
            yield from self._binary.events(chunk)
            return
        try:
            if self._lines is None:
                yield from self._sse.events(chunk)
            else:
                yield from map(ServerSentEvent, self._lines.lines(chunk))
            return
        except (SSEEventTooLarge, LineTooLong):
            pass
        # Not inside `except`: the context of the error would contain data from the provider.
        raise FrameTooLarge("an event", _MAX_EVENT_BYTES)

    def flush(self) -> list[ServerSentEvent]:
        """Return the last line of NDJSON, which may lack a line end."""
        return [] if self._lines is None else list(map(ServerSentEvent, self._lines.flush()))

    def whole(self) -> bytes | None:
        """Return the complete answer at the end of the body, None if it was a stream."""
        is_stream = self._form is _Form.STREAM
        if is_stream or (self._form is _Form.UNKNOWN and not self._claims_json):
            return None
        return bytes(self._body).lstrip(_BLANK)

    def not_a_stream(self) -> bytes | None:
        """Return the beginning of a body without a field of an event, None if it has one."""
        beginning = bytes(self._body).lstrip(_BLANK)
        is_cut = self._received > len(self._body) and b"\n" not in beginning
        if not beginning or is_cut or self._binary is not None:
            return None
        lines = filter(None, beginning.splitlines())
        return None if any(line.partition(b":")[0] in _FIELDS for line in lines) else beginning

    def _stream_bytes(self, chunk: bytes) -> bytes:
        """Return the bytes of a stream; the bytes of a complete answer are stored instead."""
        body = self._body
        body += chunk
        if self._form is _Form.UNKNOWN:
            self._form = self._detect(body)
        if self._form is _Form.STREAM:
            self._body = body[:_KEPT_BYTES]
            return bytes(body)
        if len(body) > MAX_ANSWER_BYTES:
            raise FrameTooLarge("the answer", MAX_ANSWER_BYTES)
        return b""

    def _detect(self, beginning: bytearray) -> _Form:
        first = beginning.lstrip(_BLANK)[:1]
        if not first:
            return _Form.UNKNOWN if len(beginning) < _MAX_BLANKS else _Form.STREAM
        if first in b"{[" or (self._claims_json and first not in _STREAM_STARTS):
            return _Form.WHOLE
        return _Form.STREAM


def _event_frames() -> "EventFrames":
    from ._eventstream import EventFrames  # only one provider needs it

    return EventFrames(_MAX_EVENT_BYTES)


# NDJSON lines, with bounded memory and in linear time.


class LineTooLong(Exception):
    """A line exceeds the limit; `lines` were completed before it by the same call."""

    def __init__(self, lines: list[bytes]) -> None:
        super().__init__("a line is longer than the limit")
        self.lines = lines


class LineDecoder:
    """Decodes one stream of lines; blank lines are skipped."""

    __slots__ = ("_limit", "_pending", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """Decode bytes and yield the lines that are now complete.

        Like `feed`, but the lines before an error are yielded first.

        Raises:
            LineTooLong: while iterating.
        """
        try:
            yield from self.feed(chunk)
        except LineTooLong as error:
            yield from error.lines
            raise

    def feed(self, chunk: bytes) -> list[bytes]:
        """Decode bytes and return the lines that are now complete.

        Raises:
            LineTooLong: a line, complete or not, exceeds the limit.
        """
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return []
        self._pending.append(chunk[:end])
        lines = b"".join(self._pending).split(b"\n")
        if max(map(len, lines)) > self._limit:
            raise LineTooLong(_without_blank(self._before_too_long(lines)))
        self._pending.clear()
        self._size = 0
        complete = _without_blank(lines)
        self._keep(chunk[end + 1 :], complete)
        return complete

    def flush(self) -> list[bytes]:
        """Return the last line, which may lack a line end."""
        rest = _stripped(b"".join(self._pending))
        self._pending.clear()
        self._size = 0
        return [rest] if rest else []

    def _before_too_long(self, lines: list[bytes]) -> list[bytes]:
        return list(takewhile(lambda line: len(line) <= self._limit, lines))

    def _keep(self, piece: bytes, complete: Sequence[bytes] = ()) -> None:
        """Store a piece of an incomplete line."""
        self._pending.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise LineTooLong(list(complete))


def _without_blank(lines: list[bytes]) -> list[bytes]:
    return [line for line in map(_stripped, lines) if line]


def _stripped(line: bytes) -> bytes:
    return line.strip(b"\r ")
