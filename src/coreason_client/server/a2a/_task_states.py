"""The state of tasks: it follows the end of their last turn, whichever process wrote that."""

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from time import monotonic, time
from typing import Any, Final
from uuid import UUID

from coreason_client.a2a.errors import TaskNotFoundError

from ..errors import PositionGone, UnknownStream
from ..log.base import StreamLog
from ..log.tasks import StreamEnd, TaskChange, TaskQuery, TaskRecord, TaskStore
from ._fold import GENERATION, JSON, TaskFold
from ._incoming import task_id_of
from ._protocol import FAILED, NOT_LISTED, TERMINAL, WORKING, Caller
from ._reading import NEVER_OPENED, SNAPSHOT, EventPosition, Snapshot, TaskReading, shortened
from ._turns import dump_turns, is_announced, seconds_of, timestamp, turns_of

_TURN_POLL: Final = 1.0  # seconds
_REPAIRED: Final = 100  # tasks of one owner that are brought up to date at once


class TaskStates:
    """Stores the state and a snapshot of tasks when their turns end, and reads them.

    With `repeats_answer`, the last chunk of an answer that is read is the whole answer.
    """

    def __init__(
        self,
        log: StreamLog,
        tasks: TaskStore,
        is_closing: Callable[[], bool] = lambda: False,
        *,
        repeats_answer: bool = False,
    ) -> None:
        self._repeats_answer = repeats_answer
        self._log = log
        self._is_closing = is_closing
        self._tasks = tasks

    async def end(
        self,
        end: StreamEnd,
        task_id: UUID,
        record: TaskRecord | None = None,
        messages: Mapping[int, JSON] | None = None,
    ) -> TaskFold | None:
        """End the last turn of a task, and store the state of the task with it; return its fold.

        `record` and `messages` are what the caller knows of the task. Return None if the stream is
        not the last turn of a running task; then nothing is done.

        Raises:
            LogError: the log did not accept it.
        """
        while True:
            record = record or await self._tasks.get(task_id)
            if record is None or record.state != WORKING:
                return None
            turns = turns_of(record)
            if turns[-1].stream_id != end.stream_id:
                return None
            with closing(self.reading(record, messages=messages)) as reading:
                reading.fold.as_task = is_announced(record)
                try:
                    await reading.skip_to(EventPosition(len(turns), end.first_seq - 1))
                except PositionGone:  # of an earlier turn
                    return None
                reading.end_with(end.entries)
            position = EventPosition(len(turns), end.first_seq + len(end.entries) - 1, end.epoch)
            if await self._tasks.end(end, _change(record, reading, position)):
                return reading.fold
            record = None

    async def settle(self, task_id: UUID) -> None:
        """Store the state of a task whose last turn has ended, if that was not done."""
        record = await self._tasks.get(task_id)
        if record is not None:
            await self.settled(record)

    async def settled(self, record: TaskRecord) -> TaskRecord:
        """Return a record whose state is that of its last turn, which may have ended."""
        while record.state == WORKING and (change := await self._missing_change(record)):
            if await self._tasks.update(change):
                return change.new
            latest = await self._tasks.get(record.task_id)
            if latest is None:
                return record
            record = latest
        return record

    async def _missing_change(self, record: TaskRecord) -> TaskChange | None:
        """Return the change of a running task whose last turn is over, None if it is not."""
        last = turns_of(record)[-1]
        lost = TaskChange(record, record.updated(state=FAILED, changed=time(), open=False))
        try:
            meta = await self._log.meta(last.stream_id)
        except UnknownStream:
            return lost if time() - last.opened > NEVER_OPENED else None
        if meta.outcome is None:
            return None
        try:
            return await self._folded(record)
        except PositionGone:
            return lost

    async def _folded(self, record: TaskRecord) -> TaskChange:
        with closing(self.reading(record)) as reading:
            reading.fold.as_task = is_announced(record)
            await reading.catch_up()
            return _change(record, reading, reading.position)

    async def announce(self, record: TaskRecord) -> bool:
        """Record that a client knows the task; return False if it ended as a message before."""
        while not is_announced(record):
            data = dump_turns(turns_of(record), announced=True)
            if await self._tasks.update(TaskChange(record, record.updated(data=data))):
                break
            latest = await self._tasks.get(record.task_id)
            if latest is None or latest.state != WORKING:
                return latest is not None and latest.state != NOT_LISTED
            record = latest
        return True

    async def next_turn(self, reading: TaskReading, seconds: float) -> None:
        """Wait until a task has another turn, at most for so long."""
        record = await self.settled(reading.record)
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0 and record.revision == reading.record.revision:
            # In slices, because a drain does not wake who waits for a task.
            await self._tasks.wait(record, min(left, _TURN_POLL))
            record = await self._tasks.get(record.task_id) or record
            if self._is_closing():
                break
        reading.update(record)

    def reading(
        self,
        record: TaskRecord,
        history: int | None = None,
        messages: Mapping[int, JSON] | None = None,
    ) -> TaskReading:
        """Return a reading of a task from its start."""
        known = (self._log, self._tasks, record, history, messages)
        return TaskReading(*known, repeats_answer=self._repeats_answer)

    async def load(self, caller: Caller, params: Mapping[str, Any], name: str = "id") -> TaskRecord:
        """Return a task of the caller.

        Raises:
            TaskNotFoundError: there is none; the same for a task of somebody else.
        """
        task_id = task_id_of(params, name)
        record = None if task_id is None else await self._tasks.get(task_id)
        if record is not None and record.principal == caller.principal:
            record = await self.settled(record)
            if record.state != NOT_LISTED:
                return record
        raise TaskNotFoundError("Task not found: there is none with this id.")

    async def task(
        self, record: TaskRecord, history: int | None, *, artifacts: bool = True
    ) -> JSON:
        """Return a task as JSON: from its snapshot if it is over, otherwise from the log."""
        if record.state != WORKING:
            stored = await self._tasks.value(record.task_id, SNAPSHOT)
            if stored is not None:
                task = _with_state(Snapshot.parse(stored).task, record)
                return shortened(task, history, artifacts=artifacts)
        with closing(self.reading(record)) as reading:
            with suppress(PositionGone):  # then it is what could be read
                await reading.catch_up()
            task = reading.fold.task(history=history, artifacts=artifacts)
            return task if record.state == WORKING else _with_state(task, record)

    async def repair(self, principal: str) -> None:
        """Bring tasks up to date whose last turn was ended by another process."""
        running = await self._tasks.find(TaskQuery(principal, _REPAIRED, state=WORKING))
        for record in running.records:
            await self.settled(record)


def _change(record: TaskRecord, reading: TaskReading, position: EventPosition) -> TaskChange:
    """Return the change of a task after its last turn, with its snapshot."""
    fold = reading.fold
    snapshot = Snapshot(position.turn, position.seq, fold.task(), position.epoch)
    state = NOT_LISTED if fold.message is not None else fold.state
    is_open = state not in TERMINAL and state != NOT_LISTED
    # The time that clients see, so lists are in the order of what they show.
    at = snapshot.task["status"].get("timestamp")
    changed = time() if at is None else seconds_of(at)
    new = record.updated(state=state, changed=changed, open=is_open)
    return TaskChange(record, new, {SNAPSHOT: snapshot.dump()})


def _with_state(task: JSON, record: TaskRecord) -> JSON:
    """Return a stored task; its last turn may have been lost after the snapshot."""
    if task["status"]["state"] == record.state:
        return task
    counted = {**task["metadata"], GENERATION: task["metadata"][GENERATION] + 1}
    status = {"state": record.state, "timestamp": timestamp(record.changed)}
    return {**task, "status": status, "metadata": counted}
