"""What one connection of a stream has brought, which decides whether its loss uses a retry. Pure.

A task may be quiet for hours, and a proxy may end connections on which nothing is sent. So a
connection that shows a running task and then stays open uses no retry. One that ends at once does:
otherwise an agent that ends every connection after its first event would be asked without end.
"""

from collections.abc import Callable

from .._http._types import FailureKind, TransportFailure
from .types import Event, Message, UnknownEvent

__all__ = ["ConnectionRecord"]

_STABLE_SECONDS = 5.0


class ConnectionRecord:
    """The record of one connection; `clock` returns monotonic seconds.

    Attributes:
        first_event_type: the type of its first event; None before that.
        progressed: whether it has brought something new.
    """

    __slots__ = ("_clock", "_opened_at", "_shows_task", "first_event_type", "progressed")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._opened_at = clock()
        self._shows_task = False
        self.first_event_type: type[Event] | None = None
        self.progressed = False

    @property
    def only_repeated(self) -> bool:
        """Whether it has brought events, but nothing new."""
        return self.first_event_type is not None and not self.progressed

    def add(self, event: Event) -> bool:
        """Add an event; return True if it shows the task."""
        if self.first_event_type is None:
            self.first_event_type = type(event)
        if isinstance(event, Message | UnknownEvent):
            return False
        self._shows_task = True
        return True

    def was_stable(self, error: Exception | None) -> bool:
        """Return True if the connection showed the task and stayed open; `error` has ended it."""
        if not self._shows_task:
            return False
        if isinstance(error, TransportFailure) and error.kind is FailureKind.TIMEOUT:
            return True  # it was silent for as long as the caller allows
        return self._clock() - self._opened_at >= _STABLE_SECONDS
