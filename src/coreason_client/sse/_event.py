"""One event: as the decoder returns it, and as bytes; the error for an event that is too large."""

from collections.abc import Callable

from ..errors import ArgumentError, CoreasonError


class ServerSentEvent:
    """One event; its text is decoded when it is accessed.

    Attributes:
        data_bytes: the data.
        event_bytes: the type, empty if the server sent none.
        id_bytes: the last event id at this event, empty if there was none.
    """

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
        """The type of the event; "message" if the server sent none."""
        return self.event_bytes.decode("utf-8", "replace") or "message"

    @property
    def id(self) -> str:
        """The last event id at this event; empty if there was none."""
        return self.id_bytes.decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"ServerSentEvent(event={self.event!r}, data={self.data!r}, id={self.id!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ServerSentEvent):
            return NotImplemented
        return (self.event, self.data_bytes, self.id) == (other.event, other.data_bytes, other.id)

    def __hash__(self) -> int:
        return hash((self.event, self.data_bytes, self.id))


class _DecodedEvent(ServerSentEvent):
    """An event whose fields are set by the decoder.

    Calling a class whose `__init__` is not written in Python takes half the time, and a quarter
    less than `ServerSentEvent.__new__`. Creating the event is most of the cost of decoding a short
    one.
    """

    __slots__ = ()

    __init__ = object.__init__


new_event: Callable[[], ServerSentEvent] = _DecodedEvent
"""Create an event without values; the caller must set all three fields."""


class SSEEventTooLarge(CoreasonError):
    """The data of an event, or a single line, is longer than the limit of the decoder.

    `limit` is that limit; `events` are the events that the same call had decoded before.
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


_LINE_ENDS = ("\r", "\n")


def encode_event(
    data: str | bytes | None = None,
    *,
    event: str | None = None,
    id: str | None = None,  # noqa: A002 - the name of the field on the wire
    retry_ms: int | None = None,
) -> bytes:
    """Encode one event; without data the block contains only the other fields.

    A decoder returns the same data, but with every line end as LF, because the wire format does not
    distinguish them.

    Args:
        data: the data, as text or as UTF-8.
        event: the type of the event.
        id: the id, with which a client resumes.
        retry_ms: the milliseconds that clients should wait before they reconnect.

    Raises:
        ArgumentError: a line end in `event` or `id`, a NUL in `id`, or a negative `retry_ms`.
    """
    fields = bytearray()
    if event is not None:
        fields += b"event: " + _one_line("event", event) + b"\n"
    if id is not None:
        if "\0" in id:
            raise ArgumentError("id", "must not contain NUL, because readers ignore such an id")
        fields += b"id: " + _one_line("id", id) + b"\n"
    if retry_ms is not None:
        if retry_ms < 0:
            raise ArgumentError("retry_ms", "must be 0 or more", retry_ms)
        fields += b"retry: %d\n" % retry_ms
    if data is not None:
        _add_data(fields, data.encode() if isinstance(data, str) else data)
    fields += b"\n"
    return bytes(fields)


def encode_comment(text: str = "") -> bytes:
    """Encode a comment, which keeps a connection alive and is not an event.

    Raises:
        ArgumentError: a line end in the text.
    """
    return b": " + _one_line("text", text) + b"\n\n" if text else b":\n\n"


def _one_line(field: str, value: str) -> bytes:
    if any(end in value for end in _LINE_ENDS):
        raise ArgumentError(field, "must be one line")
    return value.encode()


def _add_data(fields: bytearray, data: bytes) -> None:
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    fields += b"data: " + data + b"\n"
