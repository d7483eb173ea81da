"""Blocks to events: by the shape of an earlier block, line by line, and one that arrives in parts.

Servers send most events in one shape: the same fields in the same order, with the same type. So
the text around the values is constant. In

    event: message LF id: 1 LF data: a LF LF event: message LF id: 2 LF data: b LF LF

it is `event: message LF id: ` before the first value of a block, `LF data: ` between its values,
and `LF LF event: message LF id: ` between two blocks. `bytes.split` and `bytes.partition` find the
values between these texts without reading line by line.

Why the result is correct: split and partition only cut, so the text is exactly the values with the
constant text between them. If no value of a block contains a line end, the lines of the block are
those of the template with the values filled in. This is checked for every value, and a block that
fails the check is read line by line. A value that looks like constant text does no harm: the text
between two values contains a line end, so it cannot be part of a value. Two rules depend on the
value itself and are checked as well: an id with a NUL is ignored, and a space after the colon is
dropped, which matters if the template has no space there.
"""

from collections.abc import Sequence

from ._event import ServerSentEvent, SSEEventTooLarge, new_event

LONGEST_FIELD_PREFIX = len(b"retry: ")
# A longer number is not a sensible time, and `int` is slow for many digits or rejects them.
_MAX_RETRY_DIGITS = 18
# Integers, because `b"\n" in text` takes eight times as long as `10 in text`.
_NUL, _LF = b"\0\n"
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


_END = b"\n\n"
# A value that sorts at or after this does not start with a space. Some values that sort before it
# do not either, such as the empty one; they are read line by line.
_ABOVE_SPACE = b"!"
# A template is kept for the rest of the stream, so its size is limited separately.
_MAX_CONSTANT_BYTES = 1024


class Template:
    """The constant text of one shape of block, and its meaning.

    `fields` are the names of its values: data, two lines of data, or data and an id. `head` is the
    text before the first value, `middle` the text between two values of a block. A value that sorts
    before `lowest` may start with a space that would have to be dropped.
    """

    __slots__ = ("_between", "_head", "_head_size", "_values", "retry_ms")

    def __init__(
        self,
        fields: tuple[bytes, ...],
        head: bytes,
        middle: bytes,
        event: bytes,
        retry_ms: int | None,
        lowest: bytes,
    ) -> None:
        self.retry_ms = retry_ms
        self._head = head
        self._head_size = len(head)
        self._between = _END + head
        # An id at the end is found faster from there.
        cut = bytes.rpartition if fields[-1] == b"id" else bytes.partition
        self._values = (event, middle, lowest, cut, b"id" in fields, fields[0] == b"id")

    def read_one(self, text: bytes, last_event_id: bytes) -> list[ServerSentEvent] | None:
        """Return a list of one event if the text is exactly one block of this shape, else None."""
        if text.startswith(self._head) and text[-2:] == _END:
            # The head contains no empty line and does not end with LF, so the LF LF is after it.
            return self._events_of((text[self._head_size : -2],), last_event_id)
        return None

    def read(
        self,
        text: bytes,
        end: int,
        events: list[ServerSentEvent],
        last_event_id: bytes,
        event_fields: tuple[bytes, ...],
    ) -> tuple[bytes, int | None] | None:
        """Append the events of the complete blocks before `end`, as `read_blocks` does.

        Return None and append nothing if the last block has another shape, because the server may
        have switched to that shape.
        """
        if not text.startswith(self._head):
            first, *pieces = text[: end - 2].split(self._between)
            return self._read_mixed(first, pieces, events, last_event_id, event_fields)
        pieces = text[self._head_size : end - 2].split(self._between)
        event_type, middle, lowest, *_ = self._values
        if middle or lowest:
            found = self._events_of(pieces, last_event_id)
        else:
            found = _data_events(pieces, event_type, last_event_id)
        if found is None:
            return self._read_mixed(b"", pieces, events, last_event_id, event_fields)
        events += found
        return found[-1].id_bytes, self.retry_ms

    def _read_mixed(
        self,
        first: bytes,
        pieces: list[bytes],
        events: list[ServerSentEvent],
        last_event_id: bytes,
        event_fields: tuple[bytes, ...],
    ) -> tuple[bytes, int | None] | None:
        """Read blocks of other shapes line by line; `first` is the text before the first head."""
        if not pieces or self._events_of(pieces[-1:], last_event_id) is None:
            return None
        retry_ms: int | None = None
        if first:
            last_event_id, retry_ms = read_blocks(
                first + b"\n", events, last_event_id, event_fields
            )
        for piece in pieces:
            found = self._events_of((piece,), last_event_id)
            if found:
                events += found
                last_event_id = found[0].id_bytes
                continue
            last_event_id, new_retry_ms = read_blocks(
                self._head + piece + b"\n", events, last_event_id, event_fields
            )
            retry_ms = retry_ms if new_retry_ms is None else new_retry_ms
        # The last block has this shape, so its reconnection time comes last.
        return last_event_id, retry_ms if self.retry_ms is None else self.retry_ms

    def _events_of(
        self, pieces: Sequence[bytes], last_event_id: bytes
    ) -> list[ServerSentEvent] | None:
        """Return the events of all pieces; None if one of them is not just the values.

        This is a loop without function calls: most of the decoding time is spent here.
        """
        event_type, middle, lowest, cut, has_id, id_first = self._values
        data, event_id = b"", last_event_id
        events: list[ServerSentEvent] = []
        for piece in pieces:
            if middle:
                data, found, other = cut(piece, middle)
                if not found or _LF in data or _LF in other or data < lowest or other < lowest:
                    return None
                if not has_id:
                    data = b"\n".join((data, other))
                else:
                    if id_first:
                        data, other = other, data
                    if _NUL in other:
                        return None
                    event_id = other
            elif _LF in (data := piece) or data < lowest:
                return None
            event = new_event()
            event.data_bytes = data
            event.event_bytes = event_type
            event.id_bytes = event_id
            events.append(event)
        return events


def _data_events(
    pieces: Sequence[bytes], event_type: bytes, last_event_id: bytes
) -> list[ServerSentEvent] | None:
    """Return events with these data; None if one has a line end. All are searched at once."""
    if _LF in b"".join(pieces):
        return None
    events: list[ServerSentEvent] = []
    for data in pieces:
        event = new_event()
        event.data_bytes = data
        event.event_bytes = event_type
        event.id_bytes = last_event_id
        events.append(event)
    return events


_SHAPES = ((b"data",), (b"id", b"data"), (b"data", b"id"), (b"data", b"data"))


def learn(block: bytes) -> Template | None:
    """Return the template of a block (without its empty line); None if its shape has no template.

    The variable values must be data, or data and an id, or two lines of data, and the last line
    must contain a value. Types, reconnection times and comments are constant text of limited size.
    """
    fields: tuple[bytes, ...] = ()
    texts: list[bytes] = []  # the constant text before each value
    constant = event = b""
    retry_ms: int | None = None
    lowest = b""
    for line in block.split(b"\n"):
        name, colon, value = line.partition(b":")
        has_space = value[:1] == b" "
        if colon and name in (b"data", b"id"):
            fields += (name,)
            texts.append(constant + name + (b": " if has_space else b":"))
            lowest = lowest if has_space else _ABOVE_SPACE
            constant = b"\n"
            continue
        value = value[has_space:]
        if name == b"event":
            event = value
        elif name == b"retry":
            new_retry_ms = parse_retry(value)
            retry_ms = retry_ms if new_retry_ms is None else new_retry_ms
        elif name or not colon:  # an unknown field
            return None
        constant += line + b"\n"
    if fields not in _SHAPES or constant != b"\n" or sum(map(len, texts)) > _MAX_CONSTANT_BYTES:
        return None
    head, middle = (*texts, b"")[:2]
    return Template(fields, head, middle, event, retry_ms, lowest)
