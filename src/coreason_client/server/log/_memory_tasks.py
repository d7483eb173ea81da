"""Tasks in memory."""

from uuid import UUID

from ._memory_deliveries import MemoryDeliveries
from ._task_waiters import TaskWaiters
from .tasks import TaskPage, TaskQuery, TaskRecord, TaskStore

__all__ = ["MemoryTasks"]


class MemoryTasks(TaskStore):
    """Tasks that end with the process."""

    def __init__(self) -> None:
        self.deliveries: MemoryDeliveries = MemoryDeliveries()
        self._records: dict[UUID, TaskRecord] = {}
        self._values: dict[UUID, dict[str, tuple[int, bytes]]] = {}
        self._waiters = TaskWaiters()

    async def create(self, record: TaskRecord) -> bool:
        """Store a new task; return False if there is one with this id."""
        return self._records.setdefault(record.task_id, record) is record

    async def update(self, record: TaskRecord) -> bool:
        """Store the next version of a task; return False if another one was stored meanwhile."""
        stored = self._records.get(record.task_id)
        if stored is None or stored.version != record.version - 1:
            return False
        self._records[record.task_id] = record
        self._waiters.wake(record.task_id)
        return True

    async def get(self, task_id: UUID) -> TaskRecord | None:
        """Return a task, None if there is none."""
        return self._records.get(task_id)

    async def find(self, query: TaskQuery) -> TaskPage:
        """Return tasks, the latest change first."""
        found = [record for record in self._records.values() if query.selects(record)]
        found.sort(key=lambda record: record.position, reverse=True)
        after = query.after
        left = [record for record in found if after is None or record.position < after]
        return TaskPage(left[: query.limit], len(found))

    async def wait(self, task_id: UUID, version: int, seconds: float) -> None:
        """Wait until a task has another version than this one, at most for so long."""
        with self._waiters.registered(task_id) as changed:
            record = self._records.get(task_id)
            if record is not None and record.version == version:
                await self._waiters.wait_for(changed, seconds)

    async def put_value(self, task_id: UUID, name: str, value: bytes, epoch: int = 1) -> None:
        """Store a value beside a task; one of a later epoch stays as it is."""
        values = self._values.setdefault(task_id, {})
        if name not in values or values[name][0] <= epoch:
            values[name] = (epoch, value)

    async def value(self, task_id: UUID, name: str) -> bytes | None:
        """Return a value, None if there is none."""
        stored = self._values.get(task_id, {}).get(name)
        return None if stored is None else stored[1]

    async def drop(self, ended_before: float, changed_before: float) -> None:
        """Drop the tasks that are not open and ended before a time, and all before another one."""
        for record in list(self._records.values()):
            limit = changed_before if record.open else max(ended_before, changed_before)
            if record.changed < limit:
                del self._records[record.task_id]
                self._values.pop(record.task_id, None)
                self.deliveries.drop(record.task_id)
                self._waiters.wake(record.task_id)
