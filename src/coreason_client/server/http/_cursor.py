"""What a client has already: strict parsers for `Last-Event-ID` and `If-None-Match`.

The former is `<stream_id>:<seq>`, or `<stream_id>` for the start of a stream. The id of a packet
that was not written by the first process of its stream also has the epoch in which it was written,
and the number of the first packet of this epoch: `<stream_id>:<seq>:<epoch>:<first>`. The last
part, which clients need, may be missing.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from ._problems import Problem

# 36 characters of a UUID, and three times a colon and a number that fits any store.
MAX_CURSOR_LENGTH = 36 + 3 * (1 + 18)
# Stricter than `int` and `UUID`, which accept underscores, braces, signs and non-ASCII digits.
_CURSOR = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"(?::(0|[1-9][0-9]{0,17})(?::([1-9][0-9]{0,17})(?::[1-9][0-9]{0,17})?)?)?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a stream: everything up to `seq`, which is of this epoch, has been read."""

    stream_id: UUID
    seq: int = 0
    epoch: int = 1


def parse_cursor(value: str) -> Cursor:
    """Parse a cursor.

    Raises:
        ValueError: `value` is not a cursor.
    """
    match = _CURSOR.fullmatch(value) if len(value) <= MAX_CURSOR_LENGTH else None
    if match is None:
        raise ValueError("Last-Event-ID must be `<stream_id>:<seq>` or `<stream_id>`")
    return Cursor(UUID(match[1]), int(match[2] or 0), int(match[3] or 1))


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


# Entity tags: whether a client has a body already (RFC 9110, section 13.1.2).


def etag_of(body: bytes) -> str:
    """Return the entity tag of a body."""
    return f'"{sha256(body).hexdigest()[:32]}"'


def is_known(etag: str, if_none_match: str | None) -> bool:
    """Return True if `If-None-Match` has this tag."""
    if if_none_match is None:
        return False
    names = {name.strip().removeprefix("W/") for name in if_none_match.split(",")}
    return bool(names & {etag, "*"})
