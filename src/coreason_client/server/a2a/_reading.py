"""Tasks read from the log: the fold of their turns up to a position, and what follows."""

import asyncio
from time import time
from typing import Final, NamedTuple
from uuid import UUID

from pydantic_core import from_json

from ..errors import PositionGone, UnknownStream
from ..log.base import Follower, Page, StreamLog
from ..log.tasks import TaskRecord, TaskStore
from ._fold import JSON, Event, TaskFold, Turn
from ._snapshots import SNAPSHOT, Snapshot
from ._turns import TurnRef, message_name, timestamp, turns_of

__all__ = [
    "NEVER_OPENED",
    "Position",
    "Streamed",
    "TaskReading",
    "parse_position",
]

_PAGE: Final = 512
_DATA: Final = b"\ndata: "
_OPENING_POLL: Final = 0.05
_PATIENCE: Final = 1.0
NEVER_OPENED: Final = 60.0
"""Seconds after which a turn without a stream will never get one: its process died before."""


class Position(NamedTuple):
    """A place in a task: the number of a turn, from 1 on, and of a packet in its stream."""

    turn: int
    seq: int

    def __str__(self) -> str:
        return f"{self.turn}:{self.seq}"


def parse_position(text: str | None) -> Position | None:
    """Return the position in a `Last-Event-ID`, None if it has none of ours."""
    turn, colon, seq = (text or "").partition(":")
    if not (colon and turn.isascii() and turn.isdigit() and seq.isascii() and seq.isdigit()):
        return None
    return Position(int(turn), int(seq)) if len(turn) + len(seq) < 19 and int(turn) else None


class Streamed(NamedTuple):
    """An event, with the position that it completes; the last event of a packet has one."""

    event: Event
    position: Position | None


class TaskReading:
    """One task, folded while its turns are read. Call `close` at the end."""

    def __init__(
        self, log: StreamLog, tasks: TaskStore, record: TaskRecord, history: int | None = None
    ) -> None:
        self.record = record
        self.fold = TaskFold(str(record.task_id), record.context_id)
        self._history = history
        self._log = log
        self._tasks = tasks
        self._turns = turns_of(record)
        self._turn = 0  # the number of the turn that is read
        self._turn_ended = True
        self._follower: Follower | None = None
        self._restored_seq = 0  # of the last turn in the snapshot

    @property
    def position(self) -> Position:
        """What has been read so far."""
        seq = self._restored_seq if self._follower is None else self._follower.position
        return Position(self._turn, seq)

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
        except PositionGone:
            if not await self._restore():
                raise
            return [Streamed({"task": self.fold.task(history=self._history)}, self.position)]
        return self._add(page)

    async def _restore(self) -> bool:
        """Continue after the turns of the snapshot; return False if it does not have this one."""
        stored = await self._tasks.value(self.record.task_id, SNAPSHOT)
        snapshot = None if stored is None else Snapshot.parse(stored)
        if snapshot is None or not self._turn <= snapshot.turns <= len(self._turns):
            return False
        self.close()
        self._follower = None
        self.fold = TaskFold.restored(snapshot.task, as_task=self.fold.as_task)
        self._turn, self._turn_ended = snapshot.turns, True
        self._restored_seq = snapshot.seq
        return True

    async def catch_up(self) -> None:
        """Read everything that is there now; raises like `next`."""
        before: Position | None = None
        # A page without events, such as one with only a question, is not the end.
        while not self.at_end and (self.position != before or self._turn_ended):
            before = self.position
            await self.next(0)

    async def skip_to(self, position: Position) -> bool:
        """Read up to a position; return False if the task has not come so far."""
        while self.position < position:
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

    async def _begin(self, turn: TurnRef) -> Event:
        self.close()
        self._turn, self._turn_ended = self._turn + 1, False
        self._follower = self._log.follow(turn.stream_id, 0)
        stored = await self._tasks.value(self.record.task_id, message_name(self._turn))
        message: JSON | None = None if stored is None else from_json(stored)
        self.fold.begin(Turn(str(turn.stream_id), message, timestamp(turn.opened)))
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
        found: list[Streamed] = []
        seq = self.position.seq - len(page.entries)
        for entry in page.entries:
            seq += 1
            events = self.fold.add(from_json(entry.partition(_DATA)[2]))
            found += [Streamed(event, None) for event in events[:-1]]
            found += [Streamed(event, Position(self._turn, seq)) for event in events[-1:]]
        self._turn_ended = page.ended
        return found
