"""When a task that is waited for is over, and how often it is asked for. Pure."""

import random
from collections.abc import Iterator
from typing import TypeGuard

from .._retry import Backoff
from .types import AgentCard, Task

__all__ = ["can_subscribe", "is_over", "polls"]


def polls() -> Iterator[float]:
    """Give the delays between two questions, without end."""
    backoff = Backoff()
    asked = 0
    while True:
        asked += 1
        yield backoff.delay(asked, None, random.random) or 0.0


def can_subscribe(card: AgentCard | None) -> bool:
    """Say whether it is worth trying to subscribe: not when the card says that nothing streams."""
    return card is None or card.capabilities.streaming is not False


def is_over(task: Task | None) -> TypeGuard[Task]:
    """Say whether a task is over, or waits for the user."""
    return task is not None and (task.status.is_terminal or task.status.is_interrupted)
