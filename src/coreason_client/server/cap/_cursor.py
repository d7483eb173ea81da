"""A strict parser for `Last-Event-ID`: `<stream_id>:<seq>`, or `<stream_id>` for the start.

The ids of a durable stream also have the epoch in which the packet was written:
`<stream_id>:<seq>:<epoch>`.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from ..http._problems import Problem

__all__ = ["MAX_CURSOR_LENGTH", "Cursor", "parse_cursor", "stream_in_path"]

# 36 characters of a UUID, and twice a colon and a number that fits any store.
MAX_CURSOR_LENGTH = 36 + 1 + 18 + 1 + 18
# Stricter than `int` and `UUID`, which accept underscores, braces, signs and non-ASCII digits.
_CURSOR = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"(?::(0|[1-9][0-9]{0,17})(?::([1-9][0-9]{0,17}))?)?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a stream: everything up to `seq` has been read.

    `epoch` is that of the packet `seq`, None if it is not known.
    """

    stream_id: UUID
    seq: int = 0
    epoch: int | None = None

    def __str__(self) -> str:
        position = f"{self.stream_id}:{self.seq}"
        return position if self.epoch is None else f"{position}:{self.epoch}"


def parse_cursor(value: str) -> Cursor:
    """Parse a cursor.

    Raises:
        ValueError: `value` is not a cursor.
    """
    match = _CURSOR.fullmatch(value) if len(value) <= MAX_CURSOR_LENGTH else None
    if match is None:
        raise ValueError("Last-Event-ID must be `<stream_id>:<seq>` or `<stream_id>`")
    epoch = None if match[3] is None else int(match[3])
    return Cursor(UUID(match[1]), int(match[2] or 0), epoch)


def stream_in_path(text: str) -> UUID:
    """Return the id of the stream that a path names.

    Raises:
        Problem: 404, the name is not an id.
    """
    try:
        cursor = parse_cursor(text)
    except ValueError:
        cursor = None
    if cursor is None or ":" in text:
        raise Problem(404, "stream-not-found", "The id of a stream must be a UUID.")
    return cursor.stream_id
