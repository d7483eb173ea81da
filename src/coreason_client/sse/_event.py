"""One decoded event, and the error for an event that is too large."""

from collections.abc import Callable

from ..errors import CoreasonError

__all__ = ["SSEEventTooLarge", "ServerSentEvent", "new_event"]


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
