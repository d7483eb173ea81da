"""The async stream of events that the async client returns, and its calls that are flows."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Self, TypeAlias, TypeVar

from .._drive import Reading, Wait
from .._drive_async import AsyncClosing, AsyncOpener, close_items_async, drive_async
from .._http._types import TransportFailure
from ._assemble import Assembly
from ._client_base import (
    CallFlow,
    ClientCall,
    EventProgress,
    ReadTask,
    interrupted_wait,
    waits_for_user,
)
from ._options import CallOptions
from ._resubscribe import ResubscribeMachine
from .errors import A2AError
from .types import Event, Task


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


# Flows of `_client_base`

_Result = TypeVar("_Result")
_Step: TypeAlias = ClientCall | ReadTask | Wait
_AsyncSleep: TypeAlias = Callable[[float], Awaitable[None]]


async def run_calls_async(
    flow: CallFlow[_Result], target: Any, sleep: _AsyncSleep, options: CallOptions
) -> _Result:
    """Run a flow whose calls are methods of `target`, and return its value."""
    proceed: Callable[[Any], _Step] = flow.send
    value: Any = None
    while True:
        try:
            step = proceed(value)
        except StopIteration as done:
            result: _Result = done.value
            return result
        try:
            proceed, value = flow.send, await _take_step(step, target, sleep, options)
        except A2AError as error:
            proceed, value = flow.throw, error
        except TransportFailure as failure:
            proceed, value = flow.throw, interrupted_wait(failure)


async def _take_step(step: _Step, target: Any, sleep: _AsyncSleep, options: CallOptions) -> Any:
    """Carry out a step and return its result."""
    if isinstance(step, Wait):
        return await sleep(step.seconds)
    if isinstance(step, ReadTask):
        return await _read_task(target.resubscribe(step.task_id, **options))
    return await getattr(target, step.method)(step.argument, **options)


async def _read_task(events: Any) -> Task | None:
    """Read a stream of events until its task is over or waits for the user; return the task."""
    async with events as stream:
        async for event in stream:
            if waits_for_user(event):
                break
        task: Task | None = stream.task
        return task
