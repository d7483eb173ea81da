"""Client methods that make several calls, as flows. Pure.

A flow yields calls and waits. It is sent the result of a call; an `A2AError` of a call is raised
inside the flow. `run_calls_async` and `run_calls` run a flow.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from .._drive import Wait
from .._http._types import TransportFailure
from ._polling import has_stopped, poll_delays
from .errors import A2AConnectionError, MethodNotFoundError, UnsupportedOperationError
from .types import ListTaskPushNotificationConfigsRequest, Task, TaskPushNotificationConfig

__all__ = [
    "CallFlow",
    "ClientCall",
    "Pages",
    "ReadTask",
    "all_push_configs",
    "finished_task",
    "interrupted_wait",
]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A step: call a method with this argument and the caller's options; returns its result."""

    method: str
    argument: Any


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A step: subscribe to a task until it is over or waits for the user; returns it or None."""

    task_id: str


CallFlow: TypeAlias = Generator[ClientCall | ReadTask | Wait, Any, Result]
"""A generator of steps; `send` gets the result of a call, or None after a wait."""


def interrupted_wait(failure: TransportFailure) -> A2AConnectionError:
    """Return the error for a wait between two calls that could not finish: the client is closed."""
    error = A2AConnectionError(f"the wait for the next call was interrupted: {failure}")
    error.__cause__ = failure
    return error


class Pages:
    """The position in a paged list.

    Attributes:
        token: the token of the page to fetch; None for the first.
        done: whether the last page has been received.
    """

    def __init__(self) -> None:
        self.token: str | None = None
        self.done = False

    def received(self, next_token: str | None) -> None:
        """Record that a page was received; `next_token` is that of the page after it.

        The last page has none. A page that repeats its own token is also the last, because
        fetching it again would never end.
        """
        self.done = not next_token or next_token == self.token
        self.token = next_token


def finished_task(task_id: str) -> CallFlow[Task]:
    """Return a task once it is over or waits for the user: subscribe to it, or else poll it."""
    try:
        task = yield ReadTask(task_id)
        if has_stopped(task):
            return task
    except (UnsupportedOperationError, MethodNotFoundError):
        pass  # the agent cannot stream the events of a task
    delays = poll_delays()
    while not has_stopped(task := (yield ClientCall("get_task", task_id))):
        yield Wait(next(delays))
    return task


def all_push_configs(task_id: str) -> CallFlow[list[TaskPushNotificationConfig]]:
    """Return all push configurations of a task, from all pages."""
    found: list[TaskPushNotificationConfig] = []
    pages = Pages()
    while not pages.done:
        request = ListTaskPushNotificationConfigsRequest(task_id=task_id, page_token=pages.token)
        page = yield ClientCall("list_push_configs", request)
        pages.received(page.next_page_token)
        found += page.configs
    return found
