"""`Last-Event-ID`, read strictly: `<stream_id>:<seq>`, or a bare `<stream_id>` for all of it."""

import re
from dataclasses import dataclass
from uuid import UUID

__all__ = ["LONGEST_CURSOR", "Cursor", "parse_cursor"]

# 36 characters of a UUID, a colon and a number that fits any store.
LONGEST_CURSOR = 36 + 1 + 18
# `int` and `UUID` also take underscores, braces, signs and foreign digits.
_CURSOR = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?::(0|[1-9][0-9]{0,17}))?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a stream: everything up to `seq` has been read."""

    stream_id: UUID
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.stream_id}:{self.seq}"


def parse_cursor(value: str) -> Cursor:
    """Read a cursor.

    Raises:
        ValueError: it is none.
    """
    match = _CURSOR.fullmatch(value) if len(value) <= LONGEST_CURSOR else None
    if match is None:
        raise ValueError("Last-Event-ID is `<stream_id>:<seq>` or a bare `<stream_id>`")
    return Cursor(UUID(match[1]), int(match[2] or 0))
