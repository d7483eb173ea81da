"""What counts as an agent, and how one is run."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

from coreason_manifest.definitions.presentation import (
    PresentationEvent,
    StreamError,
    StreamOpCode,
)
from coreason_manifest.definitions.service import ServiceRequest

from .stream import AgentStream

__all__ = ["Agent", "Runner", "as_runner"]

Yielded: TypeAlias = str | PresentationEvent | StreamError | dict[str, Any]
Agent: TypeAlias = (
    Callable[[ServiceRequest, AgentStream], Awaitable[str | None]]
    | Callable[[ServiceRequest], AsyncIterator[Yielded]]
    | Callable[[ServiceRequest, AgentStream], AsyncIterator[Yielded]]
)
Runner: TypeAlias = Callable[[ServiceRequest, AgentStream], Awaitable[None]]

_LONGEST_PIECE = 100_000  # characters of one packet, far below what readers accept
_WANTED = (
    "an agent is `async def assist(request, stream)`, or an async generator function "
    "`async def assist(request)` that yields text and events"
)


def as_runner(agent: object) -> Runner:
    """Return a coroutine function that runs the agent on a stream.

    Raises:
        TypeError: it is no agent.
    """
    if not callable(agent):
        raise TypeError(f"{_WANTED}, and {_name(agent)} cannot be called")
    if inspect.isclass(agent):
        raise TypeError(f"{_WANTED}, and {_name(agent)} is a class: pass a method of an instance")
    if _is(inspect.isasyncgenfunction, agent):
        return _from_generator(agent)
    if not _is(inspect.iscoroutinefunction, agent):
        raise TypeError(f"{_WANTED}, and {_name(agent)} is not async")
    if not _takes(agent, 2):
        raise TypeError(f"{_WANTED}, and {_name(agent)} does not take these two arguments")
    return _from_coroutine(agent)


def _from_coroutine(agent: Callable[..., Awaitable[object]]) -> Runner:
    async def run(request: ServiceRequest, stream: AgentStream) -> None:
        returned = await agent(request, stream)
        if isinstance(returned, str):
            for start in range(0, len(returned), _LONGEST_PIECE):
                await stream.write(returned[start : start + _LONGEST_PIECE])
        elif returned is not None:
            raise TypeError(
                f"the agent {_name(agent)} returned {type(returned).__name__}: an agent returns "
                "its text as a string, or None if it has written to the stream"
            )

    return run


def _from_generator(agent: Callable[..., Any]) -> Runner:
    with_stream = _takes(agent, 2)
    if not with_stream and not _takes(agent, 1):
        raise TypeError(f"{_WANTED}, and {_name(agent)} does not take the request")

    async def run(request: ServiceRequest, stream: AgentStream) -> None:
        items = agent(request, stream) if with_stream else agent(request)
        async with aclosing(items):  # a cancelled agent runs its `finally` now, not some day
            async for item in items:
                await _write(stream, item)

    return run


async def _write(stream: AgentStream, item: object) -> None:
    if isinstance(item, str):
        await stream.write(item)
    elif isinstance(item, StreamError):
        await stream.write_packet(op=StreamOpCode.ERROR, p=item)
    elif isinstance(item, PresentationEvent | dict):
        await stream.write_packet(op=StreamOpCode.EVENT, p=item)
    else:
        raise TypeError(f"an agent yields text, events and errors, not {type(item).__name__}")


def _is(kind: Callable[[object], bool], agent: object) -> bool:
    # An instance with an async __call__ is as good as a function.
    return kind(agent) or kind(getattr(agent, "__call__", None))  # noqa: B004


def _takes(agent: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(agent).bind(*[None] * count)
    except TypeError:
        return False
    return True


def _name(agent: object) -> str:
    return getattr(agent, "__qualname__", None) or type(agent).__qualname__
