"""The stream of the agent whose code calls, found through context variables.

The server sets it. The AI client finds it, so that the calls of a run are steps of a durable agent.
"""

import asyncio
import contextvars
from dataclasses import dataclass
from typing import Any

__all__ = [
    "current_stream",
    "durable_stream",
    "durable_sync_stream",
    "set_current_stream",
    "set_current_sync_stream",
]


@dataclass(frozen=True, slots=True)
class _Agent:
    """The agent that calls: its `AgentStream`, and the event loop that it runs on.

    Both classes of streams are defined in the server, which this module does not know.
    """

    stream: Any
    loop: asyncio.AbstractEventLoop
    durable: bool


_agent: contextvars.ContextVar[_Agent | None] = contextvars.ContextVar("agent", default=None)
# The `SyncAgentStream` of an agent that is a plain function, in its thread.
_sync_stream: contextvars.ContextVar[Any] = contextvars.ContextVar("sync_stream", default=None)


def set_current_stream(stream: object, *, durable: bool) -> None:
    """Regard this context, which is on the event loop, as that of the agent of a stream."""
    _agent.set(_Agent(stream, asyncio.get_running_loop(), durable))


def set_current_sync_stream(stream: object) -> None:
    """Regard this context as that of the plain agent of a stream."""
    _sync_stream.set(stream)


def current_stream() -> Any:
    """Return the stream of the agent that calls, None outside agents."""
    agent = _agent.get()
    return None if agent is None else agent.stream


def durable_stream() -> Any:
    """Return the stream of the durable agent that calls on its event loop, otherwise None.

    The context variables of an agent are also those of its threads, which may have their own event
    loop.
    """
    agent = _agent.get()
    if agent is None or not agent.durable or asyncio.get_running_loop() is not agent.loop:
        return None
    return agent.stream


def durable_sync_stream() -> Any:
    """Return the stream of the durable agent that is a plain function and calls, otherwise None."""
    agent = _agent.get()
    return _sync_stream.get() if agent is not None and agent.durable else None
