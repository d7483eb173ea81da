"""The async stream that the async client returns: the events of an answer."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Self

from .._closing_async import AsyncClosing, close_items_async
from .._drive import Reading
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
        reading: Reading | None = None,
    ) -> None:
        self._events = events
        self._assembly = assembly
        self._machine = machine
        self._reading = reading or Reading()

    @classmethod
    def from_machine(cls, machine: ResubscribeMachine, sender: AsyncOpener) -> Self:
        """Return a stream that runs a machine on a sender."""
        reading = Reading(", and continue the task with resubscribe() and its task_id")
        events = drive_async(machine, sender, machine.side_call, reading)
        return cls(events, machine.assembly, machine, reading)

    def wrap_events(self, wrap: Callable[[AsyncIterator[Event]], AsyncIterator[Event]]) -> None:
        """Replace the event iterator by one that wraps it."""
        self._events = wrap(self._events)

    @classmethod
    def of(cls, events: Any) -> "AsyncEventStream":
        """Return a stream of the events of a custom transport; it does not reconnect."""
        if isinstance(events, AsyncEventStream):
            return events
        assembly, reading = Assembly(), Reading()
        return cls(_assembled(events, assembly, reading), assembly, reading=reading)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        async for event in self._events:
            # async only: begin
            if event is None:  # this is another event loop
                break
            # async only: end
            return event
        # async only: begin
        if not self._assembly.may_end:
            self._reading.check_loop()
        # async only: end
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop reading and release the connection; may be called twice.

        While another thread or task is reading, its read ends with the next bytes.
        """
        if isinstance(self._events, AsyncGenerator):
            await close_items_async(self._events, self._reading)


async def _assembled(events: Any, assembly: Assembly, reading: Reading) -> AsyncGenerator[Event]:
    try:
        async for event in events:
            if reading.stopped:
                return
            for new in assembly.apply(event):
                yield new
    finally:
        if hasattr(events, "aclose"):
            await events.aclose()
