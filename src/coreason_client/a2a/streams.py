"""The streams that the clients hand out, sync and async."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from typing import Any, TypeAlias

from .._closing import AsyncClosing, Closing
from .._drive import AsyncOpener, SyncOpener, drive, drive_async
from ._assemble import Assembly
from ._resubscribe import ResubscribeMachine
from .errors import A2AError
from .types import Event, Message, Task

__all__ = ["AsyncEventStream", "EventStream"]


Hide: TypeAlias = Callable[[A2AError], None]


def _show_all(error: A2AError) -> None:
    pass


class _Progress:
    """What a stream has delivered so far."""

    _assembly: Assembly
    _machine: ResubscribeMachine | None
    _hide: Hide = staticmethod(_show_all)

    @property
    def task(self) -> Task | None:
        """The task assembled so far; None when the agent has sent none."""
        return self._assembly.task

    @property
    def message(self) -> Message | None:
        """The last message that came as an event of its own."""
        return self._assembly.message

    @property
    def text(self) -> str:
        """The text of the answer so far.

        It is the text of artifacts and messages, each where it first came, an artifact in one
        piece. An agent that sends neither answers with its status.
        """
        return self._assembly.text

    @property
    def task_id(self) -> str | None:
        """The task that the stream is about, None before it is known."""
        return self._assembly.task_id

    @property
    def context_id(self) -> str | None:
        """The conversation that the stream belongs to, None before it is known."""
        return self._assembly.context_id

    @property
    def complete_artifacts(self) -> frozenset[str]:
        """The ids of the artifacts whose last chunk has come."""
        return frozenset(self._assembly.complete)

    def on_task(self, note: Callable[[str, str | None], None]) -> None:
        """Have a callable told the ids of the task and its context as soon as they are known."""
        self._assembly.on_task = note

    @property
    def reconnects(self) -> int:
        """How many connections there were after the first."""
        return 0 if self._machine is None else self._machine.reconnects

    @property
    def response_headers(self) -> Mapping[str, str]:
        """The headers of the last response; empty before there was one."""
        head = None if self._machine is None else self._machine.response_head
        return {} if head is None else head.headers


class EventStream(_Progress, Closing):
    """An iterator of events that heals itself; iterating raises `A2AError`."""

    def __init__(
        self, events: Iterator[Event], assembly: Assembly, machine: ResubscribeMachine | None = None
    ) -> None:
        self._events = events
        self._assembly = assembly
        self._machine = machine

    @classmethod
    def driven(
        cls, machine: ResubscribeMachine, sender: SyncOpener, hide: Hide = _show_all
    ) -> "EventStream":
        """Make the stream that a machine and a sender give; `hide` takes secrets out of errors."""
        stream = cls(drive(machine, sender, machine.side_call), machine.assembly, machine)
        stream._hide = hide
        return stream

    def watch(self, wrap: Callable[[Iterator[Event]], Iterator[Event]]) -> None:
        """Read the events through another iterator, which may act before and after them."""
        self._events = wrap(self._events)

    @classmethod
    def of(cls, events: Any) -> "EventStream":
        """Make a stream of what a transport of the caller's own gives; it does not heal."""
        if isinstance(events, EventStream):
            return events
        assembly = Assembly()
        return cls(_assembled(events, assembly), assembly)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            for event in self._events:
                return event
        except A2AError as error:
            self._hide(error)
            raise
        raise StopIteration

    def close(self) -> None:
        """Stop reading and let the connection go; may be called twice."""
        if isinstance(self._events, Generator):
            self._events.close()


class AsyncEventStream(_Progress, AsyncClosing):
    """An async iterator of events that heals itself; iterating raises `A2AError`."""

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
    def driven(
        cls, machine: ResubscribeMachine, sender: AsyncOpener, hide: Hide = _show_all
    ) -> "AsyncEventStream":
        """Make the stream that a machine and a sender give; `hide` takes secrets out of errors."""
        stream = cls(drive_async(machine, sender, machine.side_call), machine.assembly, machine)
        stream._hide = hide
        return stream

    def watch(self, wrap: Callable[[AsyncIterator[Event]], AsyncIterator[Event]]) -> None:
        """Read the events through another iterator, which may act before and after them."""
        self._events = wrap(self._events)

    @classmethod
    def of(cls, events: Any) -> "AsyncEventStream":
        """Make a stream of what a transport of the caller's own gives; it does not heal."""
        if isinstance(events, AsyncEventStream):
            return events
        assembly = Assembly()
        return cls(_assembled_async(events, assembly), assembly)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        try:
            async for event in self._events:
                return event
        except A2AError as error:
            self._hide(error)
            raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop reading and let the connection go; may be called twice."""
        if isinstance(self._events, AsyncGenerator):
            await self._events.aclose()


def _assembled(events: Any, assembly: Assembly) -> Generator[Event]:
    try:
        for event in events:
            yield from assembly.take(event)
    finally:
        if hasattr(events, "close"):
            events.close()


async def _assembled_async(events: Any, assembly: Assembly) -> AsyncGenerator[Event]:
    try:
        async for event in events:
            for new in assembly.take(event):
                yield new
    finally:
        if hasattr(events, "aclose"):
            await events.aclose()
