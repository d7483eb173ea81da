"""Bytes in, events out. No I/O; linear in the number of bytes whatever the chunking.

The rules (WHATWG HTML, section "Server-sent events", interpreting an event stream):

* Lines end with LF, CR or CRLF and with nothing else. A CR ends its line at once; a LF that
  follows, in the next chunk too, belongs to it.
* One byte order mark at the very start is dropped.
* `field: value` loses one space after the colon; a line without a colon is a field with an empty
  value; a line that starts with a colon is a comment; unknown fields are ignored.
* An empty line ends a block. A block without a data line is no event, but its id counts.
* An `id` with a NUL is ignored. `retry` counts when it is ASCII digits only, and from the end of
  its line on. A block that never ended is discarded with its id.
* Text is UTF-8, always; what is not decodes to U+FFFD.

How: line ends become LF a chunk at a time. Where all complete blocks have one of the two common
shapes (a line of data; an id and a line of data) `bytes.split` takes them apart; else a regular
expression finds the blocks, and those of other shapes are read line by line. Our own decoder
because none of those on PyPI passes the standard's own tests, and because it is several times as
fast (`bench/README.md`).
"""

import re
import sys

from ..errors import CoreasonError

__all__ = ["DEFAULT_MAX_EVENT_BYTES", "SSEDecoder", "SSEEventTooLarge", "ServerSentEvent"]

DEFAULT_MAX_EVENT_BYTES = 10_000_000

# Possessive quantifiers: a line is read once, whichever branch takes it.
_BLOCKS = re.compile(
    rb"(?:id: ([^\n\0]++)\n)?data: ([^\n]*+)\n\n"  # id (or none), data
    rb"|((?:[^\n]++\n)*+\n)"  # any other block
)
_BOM = b"\xef\xbb\xbf"
# As numbers, because `b"\r" in chunk` takes eight times as long as `13 in chunk`.
_NUL, _LF, _CR = b"\0\n\r"
# An unfinished block is kept as text up to here, and line by line beyond.
_DIGEST_ABOVE = 65_536
_LOOK_EVERY = 4096
_LONGEST_FIELD = len(b"retry: ")
# Beyond any time that makes sense, and below what `int` refuses or takes long for.
_MOST_RETRY_DIGITS = 18


class ServerSentEvent:
    """One event; text is decoded when it is read."""

    __slots__ = ("data_bytes", "event_bytes", "id_bytes")

    def __init__(self, data_bytes: bytes, event_bytes: bytes = b"", id_bytes: bytes = b"") -> None:
        self.data_bytes = data_bytes
        self.event_bytes = event_bytes
        self.id_bytes = id_bytes

    @property
    def data(self) -> str:
        """The data as text."""
        return self.data_bytes.decode("utf-8", "replace")

    @property
    def event(self) -> str:
        """The type of the event, "message" when it has no name."""
        return self.event_bytes.decode("utf-8", "replace") or "message"

    @property
    def id(self) -> str:
        """The last event id in force, "" when there was none."""
        return self.id_bytes.decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"ServerSentEvent(event={self.event!r}, data={self.data!r}, id={self.id!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ServerSentEvent):
            return NotImplemented
        return (self.event, self.data_bytes, self.id) == (other.event, other.data_bytes, other.id)

    def __hash__(self) -> int:
        return hash((self.event, self.data_bytes, self.id))


_new = ServerSentEvent.__new__


class SSEEventTooLarge(CoreasonError):
    """The data of an event, or a single line, is longer than the limit of the decoder.

    `limit` is that limit; `events` are the events that the same call had completed before.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a server-sent event is larger than the limit of {limit} bytes;"
            " raise max_event_bytes if such events are expected"
        )
        self.limit = limit
        self.events: list[ServerSentEvent] = []

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.limit,), self.__dict__


class _Block:
    """The fields of one block, gathered line by line."""

    __slots__ = ("data", "event", "event_fields", "last_event_id", "limit", "retry_ms")

    def __init__(self, limit: int, event_fields: tuple[bytes, ...] = ()) -> None:
        self.limit = limit
        self.event_fields = event_fields
        self.data = bytearray()  # its lines, each with its LF: a list would cost more than they do
        self.event = b""
        self.last_event_id: bytes | None = None
        self.retry_ms: int | None = None

    def add(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            self._add_line(line)

    def _add_line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self.data += value
            self.data += b"\n"
        elif name == b"id":
            if b"\0" not in value:
                self.last_event_id = value
        elif name == b"event":
            self.event = value
        elif name == b"retry" and value.isdigit() and len(value) <= _MOST_RETRY_DIGITS:
            self.retry_ms = int(value)
        elif name in self.event_fields:
            self.event = name
            self.data += value
            self.data += b"\n"
        self._check(len(self.data) - 1, len(line))

    def check_unfinished(self, line: bytes | bytearray) -> None:
        """Raise when the block is too large even if this line ends here."""
        size = len(self.data) - 1
        if line[:5] == b"data:":
            size += len(line) - (5 if line[5:6] == b" " else 4)
        self._check(size, len(line))

    def _check(self, size: int, line_size: int) -> None:
        if size > self.limit or line_size > self.limit + _LONGEST_FIELD:
            raise SSEEventTooLarge(self.limit)


class SSEDecoder:
    """Decodes one event stream; every connection needs a new one.

    `max_event_bytes` bounds the data of an event, and any single line. `last_event_id` is the id
    in force at the start: that of the connection before, when there was one. `event_fields` are
    fields beyond the standard that some servers send: each stands for an event of its name, with
    its value as the data.
    """

    __slots__ = (
        "_after_cr",
        "_at_start",
        "_block",
        "_digest_above",
        "_event_fields",
        "_look_above",
        "_pending",
        "_retry_ms",
        "_searched",
        "last_event_id_bytes",
        "max_event_bytes",
    )

    def __init__(
        self,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
        *,
        last_event_id: str = "",
        event_fields: tuple[bytes, ...] = (),
    ) -> None:
        if max_event_bytes < 1:
            raise ValueError(f"max_event_bytes must be at least 1, not {max_event_bytes}")
        self.max_event_bytes = max_event_bytes
        self._event_fields = event_fields
        self._pending = bytearray()  # text that no block end has followed yet
        self._searched = 0  # up to here there is no LF in `_pending`
        self._block: _Block | None = None  # lines of the unfinished block that left `_pending`
        self._digest_above = min(_DIGEST_ABOVE, max_event_bytes)
        self._look_above = self._digest_above  # the size of `_pending` that calls for a look
        self._at_start = True
        self._after_cr = False
        self.last_event_id_bytes = last_event_id.encode()  # in force after the last complete block
        self._retry_ms: int | None = None

    @property
    def last_event_id(self) -> str:
        """The id in force after the last complete block, "" when there was none."""
        return self.last_event_id_bytes.decode("utf-8", "replace")

    @property
    def retry_ms(self) -> int | None:
        """The reconnection time that the server asked for last, in milliseconds."""
        # The one field that counts before its block ends. It is asked for when a connection is
        # lost, so it is looked up here and not on the way of every event.
        unfinished = _Block(sys.maxsize - _LONGEST_FIELD)
        unfinished.add(bytes(self._pending).rpartition(b"\n")[0])
        if unfinished.retry_ms is not None:
            return unfinished.retry_ms
        if self._block is not None and self._block.retry_ms is not None:
            return self._block.retry_ms
        return self._retry_ms

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and return the events that are complete now.

        Raises:
            SSEEventTooLarge: the limit was passed; the decoder is of no use afterwards.
        """
        if self._after_cr or _CR in chunk:
            chunk = self._normalise(chunk)
        elif (  # nothing but one event of the commonest shape
            chunk[:6] == b"data: "
            and not self._pending
            and chunk.find(b"\n") == len(chunk) - 2
            and chunk[-1] == _LF
            and self._block is None
            and not self._at_start
            and len(chunk) <= self.max_event_bytes
        ):
            return [ServerSentEvent(chunk[6:-2], b"", self.last_event_id_bytes)]
        events: list[ServerSentEvent] = []
        try:
            if self._pending or self._at_start or self._block is not None:
                chunk = self._join(chunk)
            if self._block is not None and chunk:
                chunk = self._finish_digested(self._block, chunk, events)
            end = chunk.rfind(b"\n\n") + 2
            if end > 1:
                self._finish(chunk, end, events)
                chunk = chunk[end:]
            if chunk:
                self._keep(chunk)
        except SSEEventTooLarge as error:
            error.events = events
            raise
        return events

    def _normalise(self, chunk: bytes) -> bytes:
        """Turn every line end into LF; a LF whose CR ended the chunk before is swallowed."""
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk[-1:] == b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _join(self, chunk: bytes) -> bytes:
        """Return the unfinished block with this chunk, or nothing when it ends no block."""
        pending = self._pending
        before = pending[-1:] if pending else b"\n" if self._block is not None else b""
        ends_block = _LF in chunk and (chunk.find(b"\n\n") >= 0 or before == b"\n" == chunk[:1])
        if self._at_start:
            chunk = self._without_bom(chunk)
        if not ends_block:
            self._keep(chunk)
            return b""
        if pending:
            pending += chunk
            chunk = bytes(pending)
            self._clear_pending()
        return chunk

    def _without_bom(self, chunk: bytes) -> bytes:
        start = bytes(self._pending) + chunk
        if start != _BOM and _BOM.startswith(start):
            return chunk  # may become one
        self._at_start = False
        if not start.startswith(_BOM):
            return chunk
        self._clear_pending()
        return start[len(_BOM) :]

    def _clear_pending(self) -> None:
        self._pending.clear()
        self._searched = 0
        self._look_above = self._digest_above

    def _finish(self, text: bytes, end: int, events: list[ServerSentEvent]) -> None:
        """Turn the complete blocks of the text into events."""
        limit = self.max_event_bytes
        if end <= limit and self._finish_common(text, end, events):
            return
        may_pass_limit = end > limit
        last_event_id = self.last_event_id_bytes
        for event_id, data, other in _BLOCKS.findall(text, 0, end):
            if other:
                block = _Block(limit, self._event_fields)
                block.add(other[:-1])
                self._dispatch(block, events)
                last_event_id = self.last_event_id_bytes
                continue
            if may_pass_limit and (
                len(data) > limit or len(b"id: ") + len(event_id) > limit + _LONGEST_FIELD
            ):
                raise SSEEventTooLarge(limit)
            if event_id:
                self.last_event_id_bytes = last_event_id = event_id
            events.append(ServerSentEvent(data, b"", last_event_id))

    def _finish_common(self, text: bytes, end: int, events: list[ServerSentEvent]) -> bool:
        """The same for blocks that all have one of the common shapes; False when they have not."""
        if text[:6] == b"data: ":
            return self._finish_data(text, end, events)
        if text[:4] == b"id: " and _NUL not in text:
            return self._finish_ids(text, end, events)
        return False

    # In the two below events are made without `__init__`, which would double their cost.

    def _finish_data(self, text: bytes, end: int, events: list[ServerSentEvent]) -> bool:
        pieces = text[6 : end - 2].split(b"\n\ndata: ")
        if _LF in b"".join(pieces):  # a quarter of the time of counting
            return False
        new, event_id = _new, self.last_event_id_bytes
        for data in pieces:
            event = new(ServerSentEvent)
            event.data_bytes = data
            event.event_bytes = b""
            event.id_bytes = event_id
            events.append(event)
        return True

    def _finish_ids(self, text: bytes, end: int, events: list[ServerSentEvent]) -> bool:
        new = _new
        made: list[ServerSentEvent] = []
        lines: list[bytes] = []
        for piece in text[4 : end - 2].split(b"\n\nid: "):
            event_id, between, data = piece.partition(b"\ndata: ")
            if not between:
                return False
            event = new(ServerSentEvent)
            event.data_bytes = data
            event.event_bytes = b""
            event.id_bytes = event_id
            made.append(event)
            lines += (event_id, data)
        if _LF in b"".join(lines):
            return False
        self.last_event_id_bytes = made[-1].id_bytes
        events += made
        return True

    def _finish_digested(self, block: _Block, text: bytes, events: list[ServerSentEvent]) -> bytes:
        """Add the rest of the digested block, end it, and return what follows."""
        lines, _, rest = (b"", b"", text[1:]) if text[:1] == b"\n" else text.partition(b"\n\n")
        block.add(lines)
        self._block = None
        self._dispatch(block, events)
        return rest

    def _dispatch(self, block: _Block, events: list[ServerSentEvent]) -> None:
        if block.retry_ms is not None:
            self._retry_ms = block.retry_ms
        if block.last_event_id is not None:
            self.last_event_id_bytes = block.last_event_id
        if block.data:
            data = bytes(memoryview(block.data)[:-1])
            events.append(ServerSentEvent(data, block.event, self.last_event_id_bytes))

    def _keep(self, text: bytes) -> None:
        """Keep what has no end yet, within bounds: beyond some size as lines, not as text."""
        pending = self._pending
        pending += text
        if len(pending) <= self._look_above:
            return
        last = pending.rfind(b"\n", self._searched)
        if last >= 0:
            if self._block is None:
                self._block = _Block(self.max_event_bytes, self._event_fields)
            self._block.add(bytes(pending[:last]))
            del pending[: last + 1]
        self._searched = len(pending)
        block = self._block or _Block(self.max_event_bytes)
        block.check_unfinished(pending)
        # Not at every chunk: as long as there is room, some more bytes cannot pass the limit.
        room = self.max_event_bytes - len(block.data)
        self._look_above = min(len(pending) + _LOOK_EVERY, room)
