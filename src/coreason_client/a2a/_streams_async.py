"""The async stream that the async client returns: the events of an answer."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Self

from .._closing_async import AsyncClosing
from .._drive_async import AsyncOpener, drive_async
from ._assemble import Assembly
from ._progress import EventProgress
from ._resubscribe import ResubscribeMachine
from .types import Event

__all__ = ["AsyncEventStream"]


class AsyncEventStream(EventProgress, AsyncClosing):
    """An async iterator of events that reconnects by itself; iterating raises `A2AError`."""

    def __init__(
        self,
        events: AsyncIterator[Event],
        assembly: Assembly,
        machine: ResubscribeMachine | None = None,
    ) -> None:
        self._events = events
        self._assembly = assembly
        self._machine = machine

    @classmethod
    def from_machine(cls, machine: ResubscribeMachine, sender: AsyncOpener) -> Self:
        """Return a stream that runs a machine on a sender."""
        return cls(drive_async(machine, sender, machine.side_call), machine.assembly, machine)

    def wrap_events(self, wrap: Callable[[AsyncIterator[Event]], AsyncIterator[Event]]) -> None:
        """Replace the event iterator by one that wraps it."""
        self._events = wrap(self._events)

    @classmethod
    def of(cls, events: Any) -> "AsyncEventStream":
        """Return a stream of the events of a custom transport; it does not reconnect."""
        if isinstance(events, AsyncEventStream):
            return events
        assembly = Assembly()
        return cls(_assembled(events, assembly), assembly)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        async for event in self._events:
            return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop reading and release the connection; may be called twice."""
        if isinstance(self._events, AsyncGenerator):
            await self._events.aclose()


async def _assembled(events: Any, assembly: Assembly) -> AsyncGenerator[Event]:
    try:
        async for event in events:
            for new in assembly.apply(event):
                yield new
    finally:
        if hasattr(events, "aclose"):
            await events.aclose()
