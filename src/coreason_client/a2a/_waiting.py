"""How agents that do not stream are asked, and when a task that is waited for is over. Pure."""

import random
from collections.abc import Iterator
from typing import Any, TypeGuard

from .._retry import Backoff
from .types import AgentCard, Task

__all__ = ["can_stream", "is_over", "polls", "stream_operation"]


def polls() -> Iterator[float]:
    """Give the delays between two questions, without end."""
    backoff = Backoff()
    asked = 0
    while True:
        asked += 1
        yield backoff.delay(asked, random.random)


def can_stream(card: AgentCard | None) -> bool:
    """Return False if the card says that the agent does not stream."""
    return card is None or card.capabilities.streaming is not False


def stream_operation(
    name: str, params: dict[str, Any], *, streams: bool
) -> tuple[str, dict[str, Any]]:
    """Return the operation and parameters that begin a stream.

    An agent that does not stream is sent the message with a request not to wait for the end of
    the task, which is then fetched: so no answer has to come within the limit of a unary call.
    """
    if streams:
        return name, params
    if name == "resubscribe":
        return "get_task", params
    configuration = {"returnImmediately": True, **(params.get("configuration") or {})}
    return "send_message", {**params, "configuration": configuration}


def is_over(task: Task | None) -> TypeGuard[Task]:
    """Return True if a task is over, or waits for the user."""
    return task is not None and (task.status.is_terminal or task.status.is_interrupted)
