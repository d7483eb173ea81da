"""Polling: agents that do not stream, delays between polls, and when a task has stopped. Pure."""

import random
from collections.abc import Iterator
from typing import Any, TypeGuard

from .._retry import Backoff
from .types import AgentCard, Task, TaskStatusUpdateEvent

__all__ = ["can_stream", "has_stopped", "poll_delays", "stream_operation", "waits_for_user"]


def poll_delays() -> Iterator[float]:
    """Yield the delays between two polls, without end."""
    backoff = Backoff()
    polled = 0
    while True:
        polled += 1
        yield backoff.delay(polled, random.random)


def can_stream(card: AgentCard | None) -> bool:
    """Return False if the card says that the agent does not stream."""
    return card is None or card.capabilities.streaming is not False


def stream_operation(
    name: str, params: dict[str, Any], *, streams: bool
) -> tuple[str, dict[str, Any]]:
    """Return the operation and parameters that begin a stream.

    If the agent does not stream, the message is sent with `returnImmediately`, and the task is
    then polled: so the timeout of a unary call does not limit the task.
    """
    if streams:
        return name, params
    if name == "resubscribe":
        return "get_task", params
    configuration = {"returnImmediately": True, **(params.get("configuration") or {})}
    return "send_message", {**params, "configuration": configuration}


def has_stopped(task: Task | None) -> TypeGuard[Task]:
    """Return True if a task is over, or waits for the user."""
    return task is not None and (task.status.is_terminal or task.status.is_interrupted)


def waits_for_user(event: object) -> bool:
    """Return True if an event says that its task waits for the user.

    The stream may then stay open for as long as the user takes.
    """
    return isinstance(event, Task | TaskStatusUpdateEvent) and event.status.is_interrupted
