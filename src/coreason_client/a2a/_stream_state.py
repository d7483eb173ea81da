"""The state that the machine of a stream keeps (`_resubscribe`). Pure.

* A stream begins with the operation of the caller. After that it subscribes to its task, or fetches
  the task if subscribing is rejected or unsafe.
* A task may be quiet for hours, and a proxy may end connections on which nothing is sent. So a
  connection that shows a running task and then stays open uses no retry. One that ends at once
  does: otherwise an agent that ends every connection after its first event would be asked without
  end.
* Keep-alives are bytes, so a read timeout does not detect a stream that sends nothing else. They
  arrive as chunks, so checking the clock with each chunk is enough: no timer is needed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._connections import header_cursor
from .._drive import Flow
from .._http._redirect import follow_redirects
from .._http._types import FailureKind, ResponseHead, TransportFailure
from .._retry import RETRIED_STATUSES
from ..sse import ServerSentEvent
from ._route import AgentRoute
from .errors import A2AError, A2AResponseTooLargeError
from .types import Event, Message, Task, UnknownEvent

_BUSY = RETRIED_STATUSES - {500}


class StreamOperation:
    """The operation of the next connection, and whether it can be repeated.

    Attributes:
        name, params: the operation.
        begun: whether a response to it was accepted.
        last_event_id: the SSE id of the last event; empty if the next connection needs none.
    """

    __slots__ = ("_attaches", "_rejections", "begun", "last_event_id", "name", "params")

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        self.name = name
        self.params = params
        self.begun = False
        self.last_event_id = b""
        self._attaches = name in ("resubscribe", "get_task")
        self._rejections = 0  # rejected subscriptions in a row

    @property
    def attaches(self) -> bool:
        """True if the stream began with an existing task, so no message would be sent twice."""
        return self._attaches

    @property
    def known_task(self) -> str | None:
        """The task id in the parameters of the first operation."""
        message = self.params.get("message", {})
        known: str | None = self.params.get("id") if self._attaches else message.get("taskId")
        return known

    @property
    def can_resume(self) -> bool:
        """True if the stream can continue over another connection, once its task is known."""
        return self.begun or self._attaches

    @property
    def fetches(self) -> bool:
        """True if the operation fetches the task itself."""
        return self.name == "get_task"

    @property
    def subscribes(self) -> bool:
        """True if the operation subscribes to the events of the task."""
        return self.name == "resubscribe"

    @property
    def cursor(self) -> str | None:
        """The Last-Event-ID of the next request."""
        return header_cursor(self.last_event_id)

    def fetch(self, task_id: str | None) -> None:
        """Fetch the task itself from now on."""
        self.name, self.params = "get_task", {"id": task_id}
        self.last_event_id = b""

    def subscribe(self, task_id: str | None) -> None:
        """Subscribe to the events of the task from now on."""
        self.name, self.params = "resubscribe", {"id": task_id}

    def count_rejection(self) -> None:
        """Record that the agent has rejected a subscription."""
        self._rejections += 1

    def is_rejected_for_good(self, status: int) -> bool:
        """Return True unless this is the first rejection and its status means a busy server."""
        return status not in _BUSY or self._rejections > 1

    def reset_rejections(self) -> None:
        """Record that a subscription has brought an event."""
        self._rejections = 0


# What one connection has brought

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
        """True if it has brought events, but nothing new."""
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


# Silence

_KEEP_ALIVE_NAMES = frozenset({b"ping", b"heartbeat", b"keepalive", b"keep-alive"})


def is_keep_alive(event: ServerSentEvent) -> bool:
    """Return True if an event that is not part of the protocol is a keep-alive."""
    return event.event_bytes in _KEEP_ALIVE_NAMES or event.data_bytes.strip() == b"[DONE]"


def _is_comment(chunk: bytes) -> bool:
    return all(not line or line[:1] == b":" for line in chunk.splitlines())


class Silence:
    """Measures the time in which only keep-alives came.

    It starts with the first keep-alive, so events do not have to read the clock.
    """

    def __init__(self, limit: float | None, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._since: float | None = None

    def reset(self) -> None:
        """Restart the measurement after an event or a new connection."""
        self._since = None

    def lasts_too_long(self, chunk: bytes, *, keep_alives: bool) -> bool:
        """Return True if the limit has passed; then the measurement restarts.

        `chunk` has completed no event; `keep_alives` means that it has completed keep-alives.
        """
        if not keep_alives and not _is_comment(chunk):
            return False  # part of an incomplete event
        if self._limit is None:
            return False
        now = self._clock()
        if self._since is None or now - self._since < self._limit:
            self._since = now if self._since is None else self._since
            return False
        self._since = now
        return True


# Unary responses: bodies that are not event streams, and one task


class UnaryBody:
    """A response body that is not an event stream, up to a limit."""

    def __init__(self, head: ResponseHead, limit: int) -> None:
        self._limit = limit
        self._pieces = bytearray()
        size = head.headers.get("content-length", "")
        plain = "content-encoding" not in head.headers and size.isascii() and size.isdigit()
        self._size = int(size[:18]) if plain else None

    def add(self, chunk: bytes) -> bool:
        """Add bytes; return True if the body is known to be complete.

        Raises:
            A2AResponseTooLargeError: the body exceeds the limit.
        """
        self._pieces += chunk
        if len(self._pieces) > self._limit:
            message = f"a response body is larger than {self._limit} bytes"
            raise A2AResponseTooLargeError(message, status=200)
        return self._size is not None and len(self._pieces) >= self._size

    @property
    def content(self) -> bytes:
        """The bytes so far."""
        return bytes(self._pieces)


def fetch_task_once(route: AgentRoute, task_id: str | None) -> Flow[Task | None]:
    """Fetch a task with the timeouts of a stream; return None if that fails."""
    call = route.call("get_task", {"id": task_id})
    result = yield from follow_redirects(replace(call.request, timeouts=route.settings.stream))
    if isinstance(result, TransportFailure) or result.head.status != 200:
        return None
    try:
        task: Task = call.parse_response(result.body)
    except A2AError:
        return None
    return task if task.id == task_id else None
