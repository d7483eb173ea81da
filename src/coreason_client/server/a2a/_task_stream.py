"""The events of a task for one reader."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol
from uuid import UUID

from ..engine._runtime import Runtime
from ..log.tasks import TaskRecord
from ._fold import JSON, task_as_updates
from ._reading import Streamed, TaskReading
from ._states import TERMINAL

__all__ = ["TaskStream"]

# How long a task is held back that may turn out to be a message.
_HOLD: Final = 0.5


class _States(Protocol):
    async def next_turn(self, reading: TaskReading, seconds: float) -> None:
        """Wait until a task has another turn, at most for so long."""


class TaskStream:
    """Reads the events of a task; call `close` at the end.

    The stream for a message ends with the turn that answers it; one that `waits_for_turns` ends
    with the task. `first` is the event before those that are read. `announce` is called with a task
    that the reader gets before it is known whether a message answers, and returns False if one did.
    A stream for `v03` has a task only as its first event, and ends with the first turn that ends,
    whose status is `final`.
    """

    def __init__(
        self,
        states: _States,
        reading: TaskReading,
        *,
        waits_for_turns: bool,
        first: JSON | None = None,
        announce: Callable[[TaskRecord], Awaitable[bool]] | None = None,
        v03: bool = False,
    ) -> None:
        self.ended = False
        self.principal = reading.record.principal
        self.stream_id = reading.stream_id
        """The stream as whose reader this one counts."""
        self._states = states
        self._reading = reading
        self._waits_for_turns = waits_for_turns
        self._announce = announce
        self._v03 = v03
        self._has_task = first is not None
        self._first = None if first is None else Streamed(first, reading.position)

    @property
    def task_id(self) -> UUID:
        """The task that is read."""
        return self._reading.record.task_id

    @property
    def position(self) -> int:
        """The number of the last packet that was read in its turn."""
        return self._reading.position.seq

    def check_producer(self, runtime: Runtime) -> None:
        """Raise an error if waiting for more is useless, because nobody can write it."""
        if not self._reading.at_end:  # otherwise it waits for the user
            runtime.check_producer(self._reading.stream_id)

    def close(self) -> None:
        """Stop reading."""
        self._reading.close()

    async def next(self, wait: float) -> list[Streamed]:
        """Return the next events; none after `wait` seconds without any, or at the end.

        Raises:
            PositionGone: entries of the task have expired.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return [first]
        if self._waits_for_turns and self._reading.at_end and not self._is_over:
            await self._states.next_turn(self._reading, wait)
            return []
        begins = self._reading.position.turn == 0
        events = await self._reading.next(wait)
        if begins and not self._waits_for_turns:
            events = await self._message_or(events)
        self.ended = self._is_over or (self._v03 and self._reading.at_end)
        return self._with_one_task(events) if self._v03 else events

    def _with_one_task(self, events: list[Streamed]) -> list[Streamed]:
        found: list[Streamed] = []
        for one in events:
            task = one.event.get("task")
            if task is None or not self._has_task:
                found.append(one)
            else:
                *updates, last = task_as_updates(task)
                found += [*(Streamed(each, None) for each in updates), one._replace(event=last)]
            self._has_task = self._has_task or task is not None
        return found

    @property
    def _is_over(self) -> bool:
        if not self._reading.at_end:
            return False
        return not self._waits_for_turns or self._reading.fold.state in TERMINAL

    async def _message_or(self, task: list[Streamed]) -> list[Streamed]:
        """Return the message that answers, otherwise the task and its first events."""
        reading = self._reading
        events = await reading.next(_HOLD)
        if self._announce is not None:
            while not reading.at_end and not await self._announce(reading.record):
                events += await reading.next(_HOLD)
            reading.fold.as_task = not reading.at_end
        if reading.fold.message is not None:
            return events[-1:]
        return [*task, *events]
