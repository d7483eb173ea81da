"""A strict parser for `Last-Event-ID`: `<stream_id>:<seq>`, or `<stream_id>` for the start."""

import re
from dataclasses import dataclass
from uuid import UUID

__all__ = ["MAX_CURSOR_LENGTH", "Cursor", "parse_cursor"]

# 36 characters of a UUID, a colon and a number that fits any store.
MAX_CURSOR_LENGTH = 36 + 1 + 18
# Stricter than `int` and `UUID`, which accept underscores, braces, signs and non-ASCII digits.
_CURSOR = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?::(0|[1-9][0-9]{0,17}))?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a stream: everything up to `seq` has been read."""

    stream_id: UUID
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.stream_id}:{self.seq}"


def parse_cursor(value: str) -> Cursor:
    """Parse a cursor.

    Raises:
        ValueError: `value` is not a cursor.
    """
    match = _CURSOR.fullmatch(value) if len(value) <= MAX_CURSOR_LENGTH else None
    if match is None:
        raise ValueError("Last-Event-ID must be `<stream_id>:<seq>` or `<stream_id>`")
    return Cursor(UUID(match[1]), int(match[2] or 0))
