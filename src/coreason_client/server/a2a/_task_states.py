"""The state of tasks: it follows the end of their last turn, whichever process wrote that."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from time import monotonic, time
from typing import Any, Final
from uuid import UUID

from coreason_client.a2a.errors import TaskNotFoundError

from ..errors import LogError, PositionGone, UnknownStream
from ..log.base import Conversation, StreamLog
from ..log.tasks import TaskQuery, TaskRecord, TaskStore
from ._caller import Caller
from ._fold import GENERATION, JSON, TaskFold
from ._params import task_id_of
from ._reading import NEVER_OPENED, Position, TaskReading
from ._snapshots import SNAPSHOT, Snapshot, shortened
from ._states import FAILED, NOT_LISTED, TERMINAL, WORKING
from ._turns import seconds_of, timestamp, turns_of

__all__ = ["TaskStates"]

logger = logging.getLogger("coreason_client.server")

_ANNOUNCED: Final = "announced"
_TURN_POLL: Final = 1.0  # seconds
# Seconds that a reader of the turn has, who need not read it again to settle the task.
_HEAD_START: Final = 0.02
_REPAIRED: Final = 100  # tasks of one owner that are brought up to date at once


class TaskStates:
    """Brings the records of tasks up to date, and stores a snapshot when a turn is over."""

    def __init__(
        self, log: StreamLog, tasks: TaskStore, is_closing: Callable[[], bool] = lambda: False
    ) -> None:
        self._log = log
        self._is_closing = is_closing
        self._tasks = tasks
        self._settling: set[asyncio.Task[None]] = set()

    async def finish(self) -> None:
        """Wait for what runs in the background."""
        while self._settling:
            await asyncio.wait(self._settling)

    def settle_soon(self, task_id: UUID) -> None:
        """Bring a task up to date in the background."""
        self._start(self._settle_by_id(task_id))

    def settle_read(self, reading: TaskReading) -> None:
        """Do the same for a task that was read to the end of its last turn: it is known then."""
        self._start(self._settle_known(reading))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle_by_id(self, task_id: UUID) -> None:
        await asyncio.sleep(_HEAD_START)
        with _logged_failure(f"task {task_id}"):
            record = await self._tasks.get(task_id)
            if record is not None:
                await self.settled(record)

    async def _settle_known(self, reading: TaskReading) -> None:
        record, fold = reading.record, reading.fold
        if record.state != WORKING or fold.message is not None:  # a message needs a closer look
            return
        with _logged_failure(f"task {record.task_id}"):
            await self._tasks.update(await self._stored(record, fold, reading.position))

    async def settle_context(self, context: Conversation) -> None:
        """Bring the tasks of a context up to date: another process may have begun their turns."""
        with _logged_failure("tasks"):
            await self.repair(context.principal, context.session_id)

    async def settled(self, record: TaskRecord) -> TaskRecord:
        """Return a record whose state is that of its last turn, which may have ended."""
        while record.state == WORKING and await self._is_over(record):
            changed = await self._settle(record)
            if await self._tasks.update(changed):
                return changed
            latest = await self._tasks.get(record.task_id)
            if latest is None:
                return record
            record = latest
        return record

    async def _is_over(self, record: TaskRecord) -> bool:
        last = turns_of(record)[-1]
        try:
            return (await self._log.meta(last.stream_id)).outcome is not None
        except UnknownStream:  # its process died before it could open the stream, or long ago
            return time() - last.opened > NEVER_OPENED

    async def _settle(self, record: TaskRecord) -> TaskRecord:
        """Store the snapshot of a task whose last turn is over; return its next record."""
        try:
            fold, position = await self._folded(record)
        except PositionGone:
            return record.updated(state=FAILED, changed=time(), open=False)
        return await self._stored(record, fold, position)

    async def _stored(self, record: TaskRecord, fold: TaskFold, position: Position) -> TaskRecord:
        """Store the snapshot of a task; return its next record."""
        snapshot = Snapshot(*position, fold.task())
        await self._tasks.put_value(record.task_id, SNAPSHOT, snapshot.dump(), record.version)
        state = NOT_LISTED if fold.message is not None else fold.state
        is_open = state not in TERMINAL and state != NOT_LISTED
        # The time that clients see, so lists are in the order of what they show.
        at = snapshot.task["status"].get("timestamp")
        changed = time() if at is None else seconds_of(at)
        return record.updated(state=state, changed=changed, open=is_open)

    async def _folded(self, record: TaskRecord) -> tuple[TaskFold, Position]:
        with closing(self.reading(record)) as reading:
            await reading.catch_up()
            if reading.fold.message is None or not await self.is_announced(record):
                return reading.fold, reading.position
        with closing(self.reading(record)) as reading:
            reading.fold.as_task = True
            await reading.catch_up()
            return reading.fold, reading.position

    async def announce(self, record: TaskRecord) -> None:
        """Record that a client knows the task, so it stays one even if a message answers it."""
        await self._tasks.put_value(record.task_id, _ANNOUNCED, b"1")

    async def is_announced(self, record: TaskRecord) -> bool:
        """Return True if a client knows the task."""
        return await self._tasks.value(record.task_id, _ANNOUNCED) is not None

    async def next_turn(self, reading: TaskReading, seconds: float) -> None:
        """Wait until a task has another turn, at most for so long."""
        record = await self.settled(reading.record)
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0 and record.version == reading.record.version:
            # In slices, because a drain does not wake who waits for a task.
            await self._tasks.wait(record.task_id, record.version, min(left, _TURN_POLL))
            record = await self._tasks.get(record.task_id) or record
            if self._is_closing():
                break
        reading.update(record)

    def reading(self, record: TaskRecord, history: int | None = None) -> TaskReading:
        """Return a reading of a task from its start."""
        return TaskReading(self._log, self._tasks, record, history)

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
            return reading.fold.task(history=history, artifacts=artifacts)

    async def repair(self, principal: str, context_id: str | None = None) -> None:
        """Bring tasks up to date whose last turn was ended by another process."""
        query = TaskQuery(principal, _REPAIRED, context_id, WORKING)
        running = await self._tasks.find(query)
        for record in running.records:
            await self.settled(record)


@contextmanager
def _logged_failure(what: str) -> Iterator[None]:
    """Log that the state of `what` was not stored; whoever reads a task next does it."""
    try:
        yield
    except LogError as error:
        logger.warning("the state of %s was not stored: %s", what, error)


def _with_state(task: JSON, record: TaskRecord) -> JSON:
    """Return a stored task; its last turn may have been lost after the snapshot."""
    if task["status"]["state"] == record.state:
        return task
    counted = {**task["metadata"], GENERATION: task["metadata"][GENERATION] + 1}
    status = {"state": record.state, "timestamp": timestamp(record.changed)}
    return {**task, "status": status, "metadata": counted}
