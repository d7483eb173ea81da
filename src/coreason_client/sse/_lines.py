"""Decodes complete blocks of any shape, in one loop over their lines.

The loop makes no function calls for the common fields, because a call would double the cost of a
line. The caller guarantees that the text consists of complete blocks, that its line ends are LF,
and that it is not longer than the limit of the decoder, so no limit has to be checked.
"""

from ._block import parse_retry
from ._event import ServerSentEvent, new_event

__all__ = ["read_blocks"]

_NUL = 0
_FIELDS = frozenset((b"id", b"event", b"retry", b""))


def read_blocks(  # noqa: C901 - one flat loop, see above
    text: bytes,
    events: list[ServerSentEvent],
    last_event_id: bytes,
    event_fields: tuple[bytes, ...],
) -> tuple[bytes, int | None]:
    """Append the events; return the last event id, and the last reconnection time if any.

    The text is passed without its last LF. All its blocks are complete, so an id may take effect at
    its line: the event of its block is always appended later.
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
