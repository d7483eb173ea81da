"""A slow decoder that follows the WHATWG text sentence by sentence, one byte at a time.

The rules of this package that the standard does not have are here too: a limit for the size of
events and lines, a limit for the digits of a reconnection time, and extra fields that are events.
"""

from dataclasses import dataclass, field

__all__ = ["Reference", "TooLarge"]

BOM = b"\xef\xbb\xbf"
Event = tuple[bytes, bytes, bytes]
"""The type, the data and the id."""


class TooLarge(Exception):
    """A line, or the data of an event, is longer than the limit."""


@dataclass
class Reference:
    """Decodes one stream; the names are those of the decoder it is compared with."""

    limit: int = 10_000_000
    event_fields: tuple[bytes, ...] = ()
    last_event_id: bytes = b""
    retry_ms: int | None = None
    _received: bytes = b""
    _line: bytes = b""
    _after_cr: bool = False
    _data: bytes = b""
    _type: bytes = b""
    _id: bytes | None = None
    _events: list[Event] = field(default_factory=list)

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that end in this chunk; those before an error are in `partial`."""
        self._events = []
        for code in chunk:
            self._take(bytes([code]))
        return self._events

    @property
    def partial(self) -> list[Event]:
        """The events of the last call."""
        return self._events

    def _take(self, byte: bytes) -> None:
        if len(self._received) < len(BOM):
            self._received += byte
            if self._received == BOM:
                self._line = b""
                return
        if byte == b"\n" and self._after_cr:
            self._after_cr = False
            return
        self._after_cr = byte == b"\r"
        if byte in (b"\r", b"\n"):
            line, self._line = self._line, b""
            self._end_line(line)
        else:
            self._line += byte

    def _end_line(self, line: bytes) -> None:
        if len(line) > self.limit + len(b"retry: "):
            raise TooLarge
        if line == b"":
            self._end_block()
            return
        if line.startswith(b":"):
            return
        name, _, value = line.partition(b":")
        self._end_field(name, value.removeprefix(b" "))
        if len(self._data) - 1 > self.limit:
            raise TooLarge

    def _end_field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._data += value + b"\n"
        elif name == b"event":
            self._type = value
        elif name == b"id":
            self._id = self._id if b"\0" in value else value
        elif name == b"retry":
            if value and set(value) <= set(b"0123456789") and len(value) <= 18:
                self.retry_ms = int(value)
        elif name in self.event_fields:
            self._type = name
            self._data += value + b"\n"

    def _end_block(self) -> None:
        if self._id is not None:
            self.last_event_id = self._id
        if self._data:
            self._events.append((self._type, self._data[:-1], self.last_event_id))
        self._data, self._type, self._id = b"", b"", None
