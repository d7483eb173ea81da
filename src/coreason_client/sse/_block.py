"""The fields of one block, collected line by line and checked against the limit."""

from ._event import SSEEventTooLarge

__all__ = ["LONGEST_FIELD_PREFIX", "Block", "parse_retry"]

LONGEST_FIELD_PREFIX = len(b"retry: ")
# A longer number is not a sensible time, and `int` is slow for many digits or rejects them.
_MAX_RETRY_DIGITS = 18


def parse_retry(value: bytes) -> int | None:
    """Return the reconnection time in milliseconds; None if the standard ignores the value."""
    return int(value) if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS else None


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
