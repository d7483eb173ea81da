"""What the next connection of a stream asks the agent for. Pure.

A stream begins with the operation of the caller. After that it subscribes to its task, or fetches
the task where subscribing is refused or does harm.
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
        last_event_id: the SSE id of the last event; empty when the next connection needs none.
    """

    __slots__ = ("_attaches", "_refusals", "begun", "last_event_id", "name", "params")

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        self.name = name
        self.params = params
        self.begun = False
        self.last_event_id = b""
        self._attaches = name in ("resubscribe", "get_task")
        self._refusals = 0  # of subscriptions, in a row

    @property
    def attaches(self) -> bool:
        """Whether the stream began with a task that exists, so that nothing is sent twice."""
        return self._attaches

    @property
    def known_task(self) -> str | None:
        """The id of the task that the first operation names."""
        message = self.params.get("message", {})
        known: str | None = self.params.get("id") if self._attaches else message.get("taskId")
        return known

    @property
    def can_resume(self) -> bool:
        """Whether the stream can go on over another connection, once its task is known."""
        return self.begun or self._attaches

    @property
    def fetches(self) -> bool:
        """Whether the task itself is asked for."""
        return self.name == "get_task"

    @property
    def subscribes(self) -> bool:
        """Whether the events of the task are asked for."""
        return self.name == "resubscribe"

    @property
    def cursor(self) -> str | None:
        """The Last-Event-ID of the next request."""
        return header_cursor(self.last_event_id)

    def fetch(self, task_id: str | None) -> None:
        """Ask for the task itself from now on."""
        self.name, self.params = "get_task", {"id": task_id}
        self.last_event_id = b""

    def subscribe(self, task_id: str | None) -> None:
        """Ask for the events of the task from now on."""
        self.name, self.params = "resubscribe", {"id": task_id}

    def count_refusal(self) -> None:
        """Record that the agent has refused a subscription."""
        self._refusals += 1

    def is_refused_for_good(self, status: int) -> bool:
        """Return True if another subscription would be refused too: not the first busy server."""
        return status not in _BUSY or self._refusals > 1

    def reset_refusals(self) -> None:
        """Record that the agent has answered."""
        self._refusals = 0
