"""Requests for the messages of a user, with the ids of their conversation. Pure.

A follow-up has both `contextId` and `taskId`: a server that gets a task without its context may
create another context. A task that is over cannot be continued, so a reply to it has only the
`contextId`.
"""

from collections import OrderedDict
from typing import Any, TypeAlias

from ._progress import EventProgress
from .types import (
    Event,
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskStatusUpdateEvent,
)

__all__ = ["Conversations", "ReplyTo"]

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
