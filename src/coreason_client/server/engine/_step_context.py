"""The step that a piece of an agent's code belongs to, found through a context variable."""

import asyncio
import contextvars
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from ..durable._notes import Policy
from ..durable._replay import Resume


@dataclass(slots=True, eq=False)
class OpenStep:
    """A step whose function runs. `begun` is True if its beginning is in the journal.

    An agent may call another agent, which has its own stream, so a step knows its stream.
    """

    stream_id: UUID
    path: str
    policy: Policy
    function: str
    arguments: str
    begun: bool = False
    outer: "OpenStep | None" = None
    resumed: Resume | None = None
    uuids: int = 0
    ended: bool = False

    def check_open(self) -> None:
        """Check that the functions of this step and of those around it have not returned.

        Raises:
            RuntimeError: a task or thread of a step goes on after its end.
        """
        step: OpenStep | None = self
        while step is not None:
            if step.ended and step.stream_id == self.stream_id:
                raise RuntimeError(
                    f"the step {step.path} has ended, so what it has started must not write or "
                    "call steps: wait for it in the step"
                )
            step = step.outer


_step: contextvars.ContextVar[OpenStep | None] = contextvars.ContextVar("step", default=None)
# The thread of a plain agent: each of its calls runs in a new task of the event loop.
_thread: contextvars.ContextVar[int | None] = contextvars.ContextVar("thread", default=None)


innermost_step = _step.get
"""Return the innermost step of any stream that the caller belongs to, None in the body."""


def current_step(stream_id: UUID) -> OpenStep | None:
    """Return the innermost step of a stream that the caller belongs to, None in the body."""
    step = _step.get()
    while step is not None and step.stream_id != stream_id:
        step = step.outer
    return step


@contextmanager
def in_step(step: OpenStep) -> Iterator[None]:
    """Enter a step: what this context does belongs to it."""
    step.outer = _step.get()
    token = _step.set(step)
    try:
        yield
    finally:
        step.ended = True
        _step.reset(token)


def in_thread() -> None:
    """Record that the calls of this context come from the current thread."""
    _thread.set(threading.get_ident())


def caller() -> Hashable:
    """Return what identifies the task or thread that calls."""
    return _thread.get() or asyncio.current_task()
