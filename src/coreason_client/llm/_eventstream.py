"""Decodes `application/vnd.amazon.eventstream`, the binary framing of AWS, and its events. Pure.

A frame is, with all numbers big-endian:

    total length      4 bytes, of the whole frame
    headers length    4 bytes
    prelude checksum  4 bytes, CRC32 of the 8 bytes before
    headers           name length (1), name, type (1), value
    payload
    frame checksum    4 bytes, CRC32 of all bytes before

The lengths are used only after their own checksum was verified, so damaged lengths cannot make the
decoder wait for bytes that never come.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct
from typing import NamedTuple, TypeAlias
from uuid import UUID
from zlib import crc32

from ..sse import ServerSentEvent
from ._answer import FaultReceived, Malformed, ProviderFault
from ._json import mapping, parse_or_none, text

HeaderValue: TypeAlias = bool | int | bytes | str | datetime | UUID

_PRELUDE = Struct(">III")
_CHECKSUM = Struct(">I")
_MIN_FRAME = _PRELUDE.size + _CHECKSUM.size
_MAX_HEADER_BYTES = 131_072  # the limit of the format

_INTEGERS = {2: Struct(">b"), 3: Struct(">h"), 4: Struct(">i"), 5: Struct(">q")}
_TIMESTAMP = Struct(">q")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRUE, _FALSE, _BYTES, _STRING, _TIME, _UUID = 0, 1, 6, 7, 8, 9


class EventStreamError(Exception):
    """The bytes are not a valid event stream, or a frame exceeds the size limit."""


class EventMessage(NamedTuple):
    """One decoded frame."""

    headers: Mapping[str, HeaderValue]
    payload: bytes


class EventStreamDecoder:
    """Decodes one stream; `max_frame_bytes` limits the length of a frame."""

    __slots__ = ("_buffer", "_error", "_max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self._buffer = bytearray()
        self._error: str | None = None
        self._max_frame_bytes = max_frame_bytes

    def messages(self, chunk: bytes) -> Iterator[EventMessage]:
        """Decode bytes and yield the messages that are now complete.

        Raises:
            EventStreamError: the stream is damaged; all messages before were yielded. Every later
                call raises the same error.
        """
        if self._error is not None:
            raise EventStreamError(self._error)
        self._buffer += chunk
        try:
            while (message := self._next()) is not None:
                yield message
        except EventStreamError as error:
            self._error = str(error)
            self._buffer.clear()
            raise

    def _next(self) -> EventMessage | None:
        """Remove the first frame from the buffer and return it, None if it is incomplete."""
        buffer = self._buffer
        if len(buffer) < _PRELUDE.size:
            return None
        total, headers_length, checksum = _PRELUDE.unpack_from(buffer)
        if checksum != crc32(buffer[:8]):
            raise EventStreamError("the checksum of the lengths of a frame is wrong")
        self._check_lengths(total, headers_length)
        if len(buffer) < total:
            return None
        frame = bytes(buffer) if len(buffer) == total else bytes(buffer[:total])
        del buffer[:total]
        end = total - _CHECKSUM.size
        if _CHECKSUM.unpack_from(frame, end)[0] != crc32(memoryview(frame)[:end]):
            raise EventStreamError("the checksum of a frame is wrong")
        start = _PRELUDE.size + headers_length
        return EventMessage(_headers(frame[_PRELUDE.size : start]), frame[start:end])

    def _check_lengths(self, total: int, headers_length: int) -> None:
        if total > self._max_frame_bytes:
            raise EventStreamError(
                f"a frame has {total} bytes, more than the limit of {self._max_frame_bytes}"
            )
        if headers_length > _MAX_HEADER_BYTES:
            raise EventStreamError(
                f"the headers of a frame have {headers_length} bytes, more than the limit of "
                f"{_MAX_HEADER_BYTES}"
            )
        if total < _MIN_FRAME + headers_length:
            raise EventStreamError(
                f"a frame of {total} bytes cannot hold {headers_length} bytes of headers"
            )


@lru_cache(maxsize=32)  # the frames of one event type have the same headers
def _headers(block: bytes) -> Mapping[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    position = 0
    while position < len(block):
        name_end = position + 1 + block[position]
        name = _text(_slice(block, position + 1, name_end), "the name of a header")
        if not name:
            raise EventStreamError("a header has no name")
        if name in headers:
            raise EventStreamError(f"the header {name!r} is repeated")
        kind = _slice(block, name_end, name_end + 1)[0]
        headers[name], position = _value(kind, block, name_end + 1)
    return headers


def _value(kind: int, block: bytes, start: int) -> tuple[HeaderValue, int]:
    """Return the value of a header and the position after it."""
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, start
    if kind in _INTEGERS:
        number, end = _number(_INTEGERS[kind], block, start)
        return number, end
    if kind in (_BYTES, _STRING):
        length = int.from_bytes(_slice(block, start, start + 2))
        end = start + 2 + length
        value = _slice(block, start + 2, end)
        return (value if kind == _BYTES else _text(value, "the value of a header")), end
    if kind == _TIME:
        milliseconds, end = _number(_TIMESTAMP, block, start)
        return _time(milliseconds), end
    if kind == _UUID:
        return UUID(bytes=_slice(block, start, start + 16)), start + 16
    raise EventStreamError(f"a header has the unknown type {kind}")


def _number(form: Struct, block: bytes, start: int) -> tuple[int, int]:
    end = start + form.size
    return form.unpack(_slice(block, start, end))[0], end


def _slice(block: bytes, start: int, end: int) -> bytes:
    if end > len(block):
        raise EventStreamError("a header is longer than the headers of its frame")
    return block[start:end]


def _text(value: bytes, what: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EventStreamError(f"{what} is not UTF-8") from None


def _time(milliseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise EventStreamError(f"the timestamp {milliseconds} is out of range") from None


class EventFrames:
    """Decodes one stream; `max_bytes` limits the length of a frame."""

    __slots__ = ("_decoder",)

    def __init__(self, max_bytes: int) -> None:
        self._decoder = EventStreamDecoder(max_bytes)

    def events(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Decode bytes and yield the events that are now complete, also those before an error.

        Raises:
            FaultReceived: a frame is an exception or an error; its type is the code.
            Malformed: the stream is damaged, or a frame is too large.
        """
        try:
            yield from map(_event, self._decoder.messages(chunk))
            return
        except EventStreamError as error:
            damage = str(error)
        # Not inside `except`: the context of the error would contain data from the provider.
        raise Malformed(f"the event stream is damaged: {damage}")


def _event(message: EventMessage) -> ServerSentEvent:
    headers = message.headers
    kind = headers.get(":message-type", "event")
    if kind == "event":
        return ServerSentEvent(message.payload, text(headers.get(":event-type")).encode())
    described = mapping(parse_or_none(message.payload))
    code = text(headers.get(":exception-type")) or text(headers.get(":error-code"))
    code = code[:1].upper() + code[1:]  # the same exceptions begin with a capital outside of frames
    reason = text(described.get("message")) or text(headers.get(":error-message"))
    codes = (code,) if code else ()
    raise FaultReceived(ProviderFault(reason or code or f"a frame of type {kind!r}", codes))
