"""Tasks read from the log: the fold of their turns up to a position, and what follows.

Snapshots of tasks are stored when a turn is over; they outlive the entries of the log.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from time import time
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from pydantic_core import from_json, to_json

from ..answer._entries import as_packet
from ..engine._runtime import Runtime
from ..errors import PositionGone, UnknownStream
from ..log.base import Follower, Page, StreamLog, StreamMeta
from ..log.tasks import TaskRecord, TaskStore
from ._fold import JSON, Event, TaskFold, TaskTurn, task_as_updates
from ._protocol import TERMINAL
from ._turns import TurnRef, message_name, timestamp, turns_of

_POSITION: Final = re.compile(r"([1-9]\d{0,8}):(\d{1,9})(?::([1-9]\d{0,17}))?", re.ASCII)
_EPOCH: Final = re.compile(rb"id: [^:]+:\d+:(\d+)")
_PAGE: Final = 512
_OPENING_POLL: Final = 0.05
_PATIENCE: Final = 1.0
NEVER_OPENED: Final = 60.0
"""Seconds after which a turn without a stream has lost it: a store lost it, or it has expired."""


class EventPosition(NamedTuple):
    """A place in a task: the number of a turn, from 1 on, and of a packet in its stream.

    `epoch` is that in which the packet was written: a store that has lost packets may have others
    with the same numbers.
    """

    turn: int
    seq: int
    epoch: int = 1

    def __str__(self) -> str:
        return ":".join(map(str, self if self.epoch != 1 else self[:2]))


def parse_position(text: str | None) -> EventPosition | None:
    """Return the position in a `Last-Event-ID`, None if it has none of ours."""
    found = _POSITION.fullmatch(text or "")
    return None if found is None else EventPosition(*(int(part or 1) for part in found.groups()))


class Streamed(NamedTuple):
    """An event, with the position that it completes; the last event of a packet has one."""

    event: Event
    position: EventPosition | None


class TaskReading:
    """One task, folded while its turns are read. Call `close` at the end.

    `messages` are those of the turns that the caller knows. With `repeats_answer`, the last chunk
    of an answer is the whole answer.
    """

    def __init__(
        self,
        log: StreamLog,
        tasks: TaskStore,
        record: TaskRecord,
        history: int | None = None,
        messages: Mapping[int, JSON] | None = None,
        *,
        repeats_answer: bool = False,
    ) -> None:
        self.record = record
        self._messages = messages or {}
        self._repeats_answer = repeats_answer
        self.fold = self._new_fold()
        self._history = history
        self._log = log
        self._tasks = tasks
        self._turns = turns_of(record)
        self._turn = 0  # the number of the turn that is read
        self._turn_ended = True
        self._skips = False  # nobody reads the events
        self._follower: Follower | None = None
        self._restored = EventPosition(0, 0)  # of the snapshot
        self.restarts = 0
        """The number of times it has begun again, because the store has lost what was read."""

    @property
    def position(self) -> EventPosition:
        """The position after what has been read so far."""
        follower = self._follower
        if follower is None:
            return self._restored
        return EventPosition(self._turn, follower.position, follower.epoch)

    @property
    def at_end(self) -> bool:
        """True if the last known turn was read to its end."""
        return self._turn_ended and self._turn == len(self._turns)

    @property
    def stream_id(self) -> UUID:
        """The stream that is being read, or was read last."""
        return self._turns[max(self._turn, 1) - 1].stream_id

    def update(self, record: TaskRecord) -> None:
        """Continue with a later version of the record, which may have more turns."""
        self.record, self._turns = record, turns_of(record)

    def close(self) -> None:
        """Stop reading."""
        if self._follower is not None:
            self._follower.close()

    async def next(self, wait: float, limit: int = _PAGE) -> list[Streamed]:
        """Return the next events; none after `wait` seconds without any, or at the end.

        If the log no longer has what was read, the only event is the whole task as it stands now.

        Raises:
            PositionGone: entries of the task have expired.
        """
        if self.at_end:
            return []
        if self._turn_ended:
            event = await self._begin(self._turns[self._turn])
            return [Streamed(event, self.position)]
        try:
            page = await self._page(limit, wait)
        except PositionGone as gone:
            if gone.replaced:
                await self._start_over()
            elif not await self._restore():
                raise
            return [Streamed({"task": self.fold.task(history=self._history)}, self.position)]
        return self._add(page)

    def _new_fold(self) -> TaskFold:
        record, repeats_answer = self.record, self._repeats_answer
        return TaskFold(str(record.task_id), record.context_id, repeats_answer=repeats_answer)

    async def _start_over(self) -> None:
        """Read everything again that is there now."""
        self.close()
        fold, self._follower = self.fold, None
        self.fold = self._new_fold()
        self.fold.as_task = fold.as_task
        self._turn, self._turn_ended, self._restored = 0, True, EventPosition(0, 0)
        self.restarts += 1
        await self.catch_up()

    async def _restore(self) -> bool:
        """Continue after the turns of the snapshot; return False if it does not have this one."""
        stored = await self._tasks.value(self.record.task_id, SNAPSHOT)
        snapshot = None if stored is None else Snapshot.parse(stored)
        if snapshot is None or not self._turn <= snapshot.turns <= len(self._turns):
            return False
        with suppress(UnknownStream):  # it has expired
            meta = await self._log.meta(self._turns[snapshot.turns - 1].stream_id)
            if not snapshot.fits(meta):
                return False
        self.close()
        self._follower = None
        self.fold = TaskFold.restored(
            snapshot.task, as_task=self.fold.as_task, repeats_answer=self._repeats_answer
        )
        self._turn, self._turn_ended = snapshot.turns, True
        self._restored = EventPosition(snapshot.turns, snapshot.seq, snapshot.epoch or 1)
        return True

    async def catch_up(self) -> None:
        """Read everything that is there now; raises like `next`."""
        before: EventPosition | None = None
        # A page without events, such as one with only a question, is not the end.
        while not self.at_end and (self.position != before or self._turn_ended):
            before = self.position
            await self.next(0)

    async def skip_to(self, position: EventPosition) -> bool:
        """Read up to a position; return False if the log does not have it, or another packet."""
        self._skips = True
        try:
            return await self._read_to(position)
        finally:
            self._skips = False

    async def _read_to(self, position: EventPosition) -> bool:
        while self.position[:2] < position[:2]:
            in_turn = self._turn == position.turn and not self._turn_ended
            limit = position.seq - self.position.seq if in_turn else _PAGE
            before = self.position
            await self.next(0, min(limit, _PAGE))
            if self.position == before and not self._turn_ended:
                return False
            if self.at_end:
                break
        return self.position == position

    async def skip_turns(self, number: int) -> None:
        """Read whole turns; raises like `next`."""
        while self._turn < number or (self._turn == number and not self._turn_ended):
            await self.next(_PATIENCE)

    def end_with(self, entries: Sequence[bytes]) -> None:
        """Add the last entries of the turn, which need not be in the log yet."""
        for entry in entries:
            self.fold.add(as_packet(entry))
        self._turn_ended = True

    async def _begin(self, turn: TurnRef) -> Event:
        self.close()
        self._turn, self._turn_ended = self._turn + 1, False
        self._follower = self._log.follow(turn.stream_id, 0)
        message = self._messages.get(self._turn)
        if message is None:
            stored = await self._tasks.value(self.record.task_id, message_name(self._turn))
            message = None if stored is None else from_json(stored)
        self.fold.begin(TaskTurn(str(turn.stream_id), message, timestamp(turn.opened)))
        return {"task": self.fold.task(history=self._history)}

    async def _page(self, limit: int, wait: float) -> Page:
        assert self._follower is not None  # noqa: S101 - a turn was begun
        try:
            return await self._follower.next(limit, wait)
        except UnknownStream:
            turn = self._turns[self._turn - 1]
            if time() - turn.opened > NEVER_OPENED:
                raise PositionGone(turn.stream_id, self.position.seq) from None
            await asyncio.sleep(min(wait, _OPENING_POLL))  # it will be opened in a moment
            return Page([], ended=False)

    def _add(self, page: Page) -> list[Streamed]:
        self._turn_ended = page.ended
        if self._skips:
            for entry in page.entries:
                self.fold.skip(as_packet(entry))
            return []
        found: list[Streamed] = []
        seq = self.position.seq - len(page.entries)
        for entry in page.entries:
            seq += 1
            events = self.fold.add(as_packet(entry))
            found += [Streamed(event, None) for event in events[:-1]]
            position = EventPosition(self._turn, seq, _epoch(entry))
            found += [Streamed(event, position) for event in events[-1:]]
        return found


def _epoch(entry: bytes) -> int:
    """Return the epoch in the id of a packet; that of the first one may not be named."""
    found = _EPOCH.match(entry)
    return 1 if found is None else int(found[1])


# Snapshots

SNAPSHOT: Final = "snapshot"
"""The name of the value with the snapshot of a task."""
_MAX_BYTES: Final = 1024 * 1024


class Snapshot(NamedTuple):
    """A task after so many turns.

    The last packet of the last one has the number `seq`, and was written in the epoch `epoch`; an
    earlier release stored none.
    """

    turns: int
    seq: int
    task: JSON
    epoch: int = 0

    def fits(self, meta: StreamMeta) -> bool:
        """Return True if a stream is the one that was read: a store may have lost its end."""
        same = (meta.last_seq, meta.epoch) == (self.seq, self.epoch) and meta.outcome is not None
        return same or not self.epoch

    def dump(self) -> bytes:
        """Return it as it is stored; without the artifacts if it is too large."""
        stored = to_json(self._asdict())
        if len(stored) <= _MAX_BYTES:
            return stored
        kept = {name: value for name, value in self.task.items() if name != "artifacts"}
        kept["metadata"] = {**self.task.get("metadata", {}), "truncated": True}
        return to_json({**self._asdict(), "task": kept})

    @classmethod
    def parse(cls, stored: bytes) -> "Snapshot":
        """Return a stored snapshot."""
        return cls(**from_json(stored))


def shortened(task: JSON, history: int | None, *, artifacts: bool) -> JSON:
    """Return a task with at most `history` messages, and without its artifacts if not wanted."""
    left = dict(task)
    if not artifacts:
        left.pop("artifacts", None)
    if history is not None:
        messages = left.pop("history", [])
        if history and messages:
            left["history"] = messages[-history:]
    return left


# The events of a task for one reader

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
