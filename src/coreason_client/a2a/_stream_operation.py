"""The operation that the next connection of a stream requests. Pure.

A stream begins with the operation of the caller. After that it subscribes to its task, or fetches
the task if subscribing is rejected or unsafe.
"""

from typing import Any

from .._connections import header_cursor
from .._retry import RETRIED_STATUSES

__all__ = ["StreamOperation"]

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
        """Whether the stream began with an existing task, so no message would be sent twice."""
        return self._attaches

    @property
    def known_task(self) -> str | None:
        """The task id in the parameters of the first operation."""
        message = self.params.get("message", {})
        known: str | None = self.params.get("id") if self._attaches else message.get("taskId")
        return known

    @property
    def can_resume(self) -> bool:
        """Whether the stream can continue over another connection, once its task is known."""
        return self.begun or self._attaches

    @property
    def fetches(self) -> bool:
        """Whether the operation fetches the task itself."""
        return self.name == "get_task"

    @property
    def subscribes(self) -> bool:
        """Whether the operation subscribes to the events of the task."""
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
