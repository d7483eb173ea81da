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

How: line ends become LF a chunk at a time. Complete blocks are read with the template of an
earlier block (`_template.py`) if they all have its shape, else line by line (`_lines.py`). A block
that is larger than some size, or that may pass the limit, is collected in parts (`_block.py`). Our
own decoder because none of those on PyPI passes the standard's own tests, and because it is several
times as fast (`bench/README.md`).
"""

import re
import sys
from collections.abc import Iterator

from ..errors import ArgumentError
from ._block import LONGEST_FIELD, Block
from ._event import ServerSentEvent, SSEEventTooLarge
from ._lines import read_blocks
from ._template import Template, learn

__all__ = ["DEFAULT_MAX_EVENT_BYTES", "SSEDecoder", "SSEEventTooLarge", "ServerSentEvent"]

DEFAULT_MAX_EVENT_BYTES = 10_000_000

_BOM = b"\xef\xbb\xbf"
# As numbers, because `b"\r" in chunk` takes eight times as long as `13 in chunk`.
_LF, _CR = b"\n\r"
_LONE_CR = re.compile(rb"\r(?!\n)")
# An unfinished block is kept as text up to here, and line by line beyond.
_DIGEST_ABOVE = 65_536
_LOOK_EVERY = 4096


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
        "_misses",
        "_pending",
        "_retry_ms",
        "_searched",
        "_template",
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
            raise ArgumentError("max_event_bytes", "must be at least 1", max_event_bytes)
        self.max_event_bytes = max_event_bytes
        self._event_fields = event_fields
        self._pending = bytearray()  # text that no block end has followed yet
        self._searched = 0  # up to here there is no LF in `_pending`
        self._block: Block | None = None  # lines of the unfinished block that left `_pending`
        self._digest_above = min(_DIGEST_ABOVE, max_event_bytes)
        self._look_above = self._digest_above  # the size of `_pending` that calls for a look
        self._template: Template | None = None
        self._misses = 0  # texts in a row to which the template did not apply
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
        unfinished = Block(sys.maxsize - LONGEST_FIELD)
        unfinished.add(bytes(self._pending).rpartition(b"\n")[0])
        if unfinished.retry_ms is not None:
            return unfinished.retry_ms
        if self._block is not None and self._block.retry_ms is not None:
            return self._block.retry_ms
        return self._retry_ms

    def events(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Take the next bytes and iterate over the events that are complete now.

        The same as `feed`, but an error comes after the events that were complete before it.

        Raises:
            SSEEventTooLarge: while iterating; the decoder is of no use afterwards.
        """
        try:
            return iter(self.feed(chunk))
        except SSEEventTooLarge as error:
            return _events_then_error(error)

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and return the events that are complete now.

        Raises:
            SSEEventTooLarge: the limit was passed; the decoder is of no use afterwards. Its
                `events` are those that were complete before; `SSEDecoder.events` iterates over
                them first and then raises.
        """
        if self._after_cr or _CR in chunk:
            chunk = self._normalise(chunk)
        template = self._template
        if template is not None and not self._pending and len(chunk) <= self.max_event_bytes:
            event = template.read_one(chunk, self.last_event_id_bytes)
            if event is not None:
                self._misses = 0
                self.last_event_id_bytes = event.id_bytes
                if template.retry_ms is not None:
                    self._retry_ms = template.retry_ms
                return [event]
        events: list[ServerSentEvent] = []
        try:
            if self._pending or self._at_start or self._block is not None:
                chunk = self._join(chunk, events)
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
        if not self._after_cr and chunk[-1] != _CR:
            without_cr = chunk.replace(b"\r", b"")
            # Dropping every CR is right if each is followed by a LF. If all line ends are CRLF, the
            # way back shows it; replacing one byte twice is four times as fast as CRLF once.
            if without_cr.replace(b"\n", b"\r\n") == chunk or not _LONE_CR.search(chunk):
                return without_cr
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk[-1:] == b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _join(self, chunk: bytes, events: list[ServerSentEvent]) -> bytes:
        """Return the unfinished block with this chunk, or nothing when it ends no block.

        A block that was collected in parts is finished here, and what follows it is returned.
        """
        pending = self._pending
        before = pending[-1:] if pending else b"\n" if self._block is not None else b""
        ends_block = _LF in chunk and (chunk.find(b"\n\n") >= 0 or before == b"\n" == chunk[:1])
        if self._at_start:
            chunk = self._without_bom(chunk)
        if not ends_block:
            self._keep(chunk)
            return b""
        if pending:
            chunk = bytes(pending) + chunk
            self._clear_pending()
        if self._block is not None:
            chunk = self._finish_digested(self._block, chunk, events)
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
        if end > self.max_event_bytes:
            self._finish_checked(text[: end - 2], events)
            return
        template, last_event_id = self._template, self.last_event_id_bytes
        found = None
        if template is not None:
            found = template.read(text, end, events, last_event_id, self._event_fields)
        if found is not None:
            self._misses = 0
        else:
            found = read_blocks(text[: end - 1], events, last_event_id, self._event_fields)
            self._learn(text[: end - 2])
        self.last_event_id_bytes, retry_ms = found
        if retry_ms is not None:
            self._retry_ms = retry_ms

    def _learn(self, text: bytes) -> None:
        """Take the last block of the text as the template, but not at every miss.

        Learning costs more than reading a block line by line, and a template that does not apply
        costs something too. So a single other block changes nothing, and the longer no template
        applies, the rarer a new one is tried.
        """
        self._misses += 1
        misses = self._misses
        if misses == 1 and self._template is not None:
            return
        is_power_of_two = not misses & (misses - 1)
        self._template = learn(text.rpartition(b"\n\n")[2]) if is_power_of_two else None

    def _finish_checked(self, text: bytes, events: list[ServerSentEvent]) -> None:
        """Turn complete blocks into events when one of them may pass the limit."""
        for lines in text.split(b"\n\n"):
            block = Block(self.max_event_bytes, self._event_fields)
            block.add(lines.lstrip(b"\n"))  # further empty lines end no block
            self._dispatch(block, events)

    def _finish_digested(self, block: Block, text: bytes, events: list[ServerSentEvent]) -> bytes:
        """Add the rest of the digested block, end it, and return what follows."""
        lines, _, rest = (b"", b"", text[1:]) if text[:1] == b"\n" else text.partition(b"\n\n")
        block.add(lines)
        self._block = None
        self._dispatch(block, events)
        return rest

    def _dispatch(self, block: Block, events: list[ServerSentEvent]) -> None:
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
                self._block = Block(self.max_event_bytes, self._event_fields)
                self._template = None  # applies to whole blocks only
            self._block.add(bytes(pending[:last]))
            del pending[: last + 1]
        self._searched = len(pending)
        block = self._block or Block(self.max_event_bytes)
        block.check_unfinished(pending)
        # Not at every chunk: as long as there is room, some more bytes cannot pass the limit.
        room = self.max_event_bytes - len(block.data)
        self._look_above = min(len(pending) + _LOOK_EVERY, room)


def _events_then_error(error: SSEEventTooLarge) -> Iterator[ServerSentEvent]:
    yield from error.events
    raise error
