"""The rules that the sync and the async client share. Pure.

* Methods that make several calls are flows. A flow yields calls and waits; it is sent the result of
  a call, and an `A2AError` of a call is raised inside it.
* A stream shows what it has delivered so far (`EventProgress`).
* A follow-up message has both `contextId` and `taskId`: a server that gets a task without its
  context may create another context. A task that is over cannot be continued, so a reply to it has
  only the `contextId`.
"""

import random
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard, TypeVar

from .._drive import Wait
from .._http._types import TransportFailure
from .._retry import Backoff
from ._assemble import Assembly
from ._resubscribe import ResubscribeMachine
from .errors import A2AConnectionError, MethodNotFoundError, UnsupportedOperationError
from .types import (
    Event,
    ListTaskPushNotificationConfigsRequest,
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
)

# Flows


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


def poll_delays() -> Iterator[float]:
    """Yield the delays between two polls, without end."""
    backoff = Backoff()
    polled = 0
    while True:
        polled += 1
        yield backoff.delay(polled, random.random)


def has_stopped(task: Task | None) -> TypeGuard[Task]:
    """Return True if a task is over, or waits for the user."""
    return task is not None and (task.status.is_terminal or task.status.is_interrupted)


def waits_for_user(event: object) -> bool:
    """Return True if an event says that its task waits for the user.

    The stream may then stay open for as long as the user takes.
    """
    return isinstance(event, Task | TaskStatusUpdateEvent) and event.status.is_interrupted


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


# Streams


class EventProgress:
    """The task, messages and text that a stream has delivered so far."""

    _assembly: Assembly
    _machine: ResubscribeMachine | None

    @property
    def task(self) -> Task | None:
        """The task assembled so far; None if the agent has sent none."""
        return self._assembly.task

    @property
    def message(self) -> Message | None:
        """The last message that was its own event."""
        return self._assembly.message

    @property
    def text(self) -> str:
        """The text of the answer so far.

        It is the text of artifacts and messages, in the order of their first events; an artifact is
        one piece. If the agent sends neither, it is the text of the status.
        """
        return self._assembly.text

    @property
    def task_id(self) -> str | None:
        """The id of the task, None before it is known."""
        return self._assembly.task_id

    @property
    def context_id(self) -> str | None:
        """The id of the conversation, None before it is known."""
        return self._assembly.context_id

    @property
    def complete_artifacts(self) -> frozenset[str]:
        """The ids of the artifacts whose last chunk has arrived."""
        return frozenset(self._assembly.complete_artifacts)

    def on_task(self, callback: Callable[[str, str | None], None]) -> None:
        """Call a function with the ids of the task and its context as soon as they are known."""
        self._assembly.on_task = callback

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return 0 if self._machine is None else self._machine.reconnects

    @property
    def response_headers(self) -> Mapping[str, str]:
        """The headers of the last response; empty before the first one."""
        head = None if self._machine is None else self._machine.response_head
        return {} if head is None else head.headers


# Messages of a conversation

ReplyTo: TypeAlias = Event | EventProgress
_MAX_REMEMBERED = 1000


class Conversations:
    """Remembers the contexts of the last thousand tasks."""

    def __init__(self) -> None:
        self._contexts: OrderedDict[str, str] = OrderedDict()

    def remember_ids(self, task_id: str | None, context_id: str | None) -> None:
        """Remember the context of a task."""
        if task_id and context_id:
            self._contexts[task_id] = context_id
            while len(self._contexts) > _MAX_REMEMBERED:
                self._contexts.popitem(last=False)

    def remember(self, event: Event) -> Event:
        """Remember the task and the context of an event, and return the event."""
        if isinstance(event, Task):
            self.remember_ids(event.id, event.context_id)
        else:
            self.remember_ids(getattr(event, "task_id", None), getattr(event, "context_id", None))
        return event

    def request(
        self,
        message: str | Message,
        config: SendMessageConfiguration | None,
        reply_to: ReplyTo | None,
        metadata: dict[str, Any] | None = None,
    ) -> SendMessageRequest:
        """Return the request that sends a message.

        Raises:
            TypeError: it is neither a string nor a message.
        """
        if isinstance(message, str):
            message = Message.user(message)
        elif not isinstance(message, Message):
            raise TypeError(f"message must be a string or a Message, got {type(message).__name__}")
        changes: dict[str, Any] = {}
        if message.role == Role.UNSPECIFIED:
            changes["role"] = Role.USER
        if reply_to is not None:
            task_id, context_id = _ids(reply_to)
            changes["task_id"] = message.task_id or task_id
            changes["context_id"] = message.context_id or context_id
        task_id = changes.get("task_id") or message.task_id
        if task_id and not (changes.get("context_id") or message.context_id):
            changes["context_id"] = self._contexts.get(task_id)
        if changes:
            message = message.model_copy(update=changes)
        return SendMessageRequest(message=message, configuration=config, metadata=metadata)


def _ids(reply_to: ReplyTo) -> tuple[str | None, str | None]:
    if isinstance(reply_to, EventProgress):
        task = reply_to.task
        if task is None:
            return reply_to.task_id, reply_to.context_id
        reply_to = task
    over = isinstance(reply_to, Task | TaskStatusUpdateEvent) and reply_to.status.is_terminal
    task_id = reply_to.id if isinstance(reply_to, Task) else getattr(reply_to, "task_id", None)
    return None if over else task_id, getattr(reply_to, "context_id", None)
