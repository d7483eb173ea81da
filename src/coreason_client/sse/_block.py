"""Blocks to events: complete blocks of any shape, and one block that arrives in parts."""

from ._event import ServerSentEvent, SSEEventTooLarge, new_event

__all__ = ["LONGEST_FIELD_PREFIX", "Block", "parse_retry", "read_blocks"]

LONGEST_FIELD_PREFIX = len(b"retry: ")
# A longer number is not a sensible time, and `int` is slow for many digits or rejects them.
_MAX_RETRY_DIGITS = 18
_NUL = 0
_FIELDS = frozenset((b"id", b"event", b"retry", b""))


def parse_retry(value: bytes) -> int | None:
    """Return the reconnection time in milliseconds; None if the standard ignores the value."""
    return int(value) if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS else None


def read_blocks(  # noqa: C901 - one flat loop
    text: bytes,
    events: list[ServerSentEvent],
    last_event_id: bytes,
    event_fields: tuple[bytes, ...],
) -> tuple[bytes, int | None]:
    """Append the events; return the last event id, and the last reconnection time if any.

    The text is passed without its last LF. All its blocks are complete, so an id may take effect at
    its line: the event of its block is always appended later. Its line ends are LF, and it is not
    longer than the limit of the decoder, so no limit has to be checked.

    The loop makes no function calls for the common fields: a call would double the cost of a line.
    """
    retry_ms: int | None = None
    event_type = b""
    data: bytes | None = None  # the first line of data
    more: list[bytes] = []  # the other lines of data
    for line in text.split(b"\n"):
        if not line:
            if data is not None:
                if more:
                    data = b"\n".join((data, *more))
                    more = []
                event = new_event()
                event.data_bytes = data
                event.event_bytes = event_type
                event.id_bytes = last_event_id
                events.append(event)
                data = None
            event_type = b""
            continue
        # A field name contains no colon. So if the text before the first ": " is the name of a
        # field, the first colon of the line ends it, and the space after it is dropped.
        name, _, value = line.partition(b": ")
        if name == b"data":  # the most frequent case by far
            if data is None:
                data = value
            else:
                more.append(value)
            continue
        if name not in _FIELDS:  # another field, a comment, or no space after the colon
            name, _, value = line.partition(b":")
            if value[:1] == b" ":
                value = value[1:]
        if name == b"id":
            if _NUL not in value:
                last_event_id = value
        elif name == b"event":
            event_type = value
        elif name == b"retry":
            new_retry_ms = parse_retry(value)
            retry_ms = retry_ms if new_retry_ms is None else new_retry_ms
        elif name == b"data" or name in event_fields:
            if name != b"data":
                event_type = name
            if data is None:
                data = value
            else:
                more.append(value)
    return last_event_id, retry_ms


class Block:
    """The fields of one block, collected line by line.

    Slower than the readers of complete blocks, but accepts a block in parts and checks its size.
    """

    __slots__ = ("data", "event", "event_fields", "last_event_id", "limit", "retry_ms")

    def __init__(self, limit: int, event_fields: tuple[bytes, ...] = ()) -> None:
        self.limit = limit
        self.event_fields = event_fields
        self.data = bytearray()  # each data line with its LF; uses less memory than a list
        self.event = b""
        self.last_event_id: bytes | None = None
        self.retry_ms: int | None = None

    def add(self, lines: bytes) -> None:
        """Add complete lines, separated by LF.

        Raises:
            SSEEventTooLarge: the data, or one line, is longer than the limit.
        """
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
        elif name == b"retry":
            retry_ms = parse_retry(value)
            self.retry_ms = self.retry_ms if retry_ms is None else retry_ms
        elif name in self.event_fields:
            self.event = name
            self.data += value
            self.data += b"\n"
        self._check(len(self.data) - 1, len(line))

    def check_unfinished(self, line: bytes | bytearray) -> None:
        """Raise SSEEventTooLarge if the block is too large with this unfinished line."""
        size = len(self.data) - 1
        if line[:5] == b"data:":
            size += len(line) - (5 if line[5:6] == b" " else 4)
        self._check(size, len(line))

    def _check(self, size: int, line_size: int) -> None:
        if size > self.limit or line_size > self.limit + LONGEST_FIELD_PREFIX:
            raise SSEEventTooLarge(self.limit)
