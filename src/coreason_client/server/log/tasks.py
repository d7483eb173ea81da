"""The contract of a store of tasks: small records that a protocol keeps beside the streams.

A task joins several streams, its turns. What it is follows from their entries; the record has only
what must be found without reading them: the owner, the context, the state and when it changed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self, runtime_checkable
from uuid import UUID

from .deliveries import DeliveryStore

__all__ = ["TaskLog", "TaskPage", "TaskPosition", "TaskQuery", "TaskRecord", "TaskStore"]


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task. The log does not read `data`.

    A task without a state is not found by queries.

    `changed` is the time of the last change of `state`, in seconds. `version` is 1 for a new task
    and grows by 1 with each update. `open` is True while the task may go on.
    """

    task_id: UUID
    principal: str
    context_id: str
    state: str
    changed: float
    data: bytes = b""
    open: bool = True
    version: int = 1

    @property
    def position(self) -> "TaskPosition":
        """Its place in a list of tasks, the latest change first."""
        return TaskPosition(self.changed, self.task_id)

    def updated(
        self,
        *,
        state: str | None = None,
        changed: float | None = None,
        data: bytes | None = None,
        open: bool | None = None,  # noqa: A002 - the name of the field
    ) -> Self:
        """Return the next version of the record with these fields."""
        given = {"state": state, "changed": changed, "data": data, "open": open}
        fields = {name: value for name, value in given.items() if value is not None}
        return replace(self, version=self.version + 1, **fields)  # type: ignore[arg-type]


class TaskPosition(NamedTuple):
    """A place in a list of tasks that is ordered by time, and by id at the same time."""

    changed: float
    task_id: UUID


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """The tasks of a principal, limited to a context, a state or a time, after a position."""

    principal: str
    limit: int
    context_id: str | None = None
    state: str | None = None
    changed_since: float | None = None
    after: TaskPosition | None = None

    def may_select(self, record: TaskRecord) -> bool:
        """Return True if a record belongs to the result now or after a change of the task."""
        return record.principal == self.principal and self.context_id in (None, record.context_id)

    def selects(self, record: TaskRecord) -> bool:
        """Return True if a record belongs to the result, whatever the position."""
        return (
            self.may_select(record)
            and record.state != ""
            and self.state in (None, record.state)
            and (self.changed_since is None or record.changed >= self.changed_since)
        )


class TaskPage(NamedTuple):
    """A part of the result of a query, and the number of all its tasks."""

    records: Sequence[TaskRecord]
    total: int


class TaskStore(ABC):
    """Keeps tasks. Each operation is atomic, and may be called on any replica."""

    deliveries: DeliveryStore
    """Who is sent the events of the tasks; the deliveries of a task are dropped with it."""

    @abstractmethod
    async def create(self, record: TaskRecord) -> bool:
        """Store a new task; return False if there is one with this id."""

    @abstractmethod
    async def update(self, record: TaskRecord) -> bool:
        """Store the next version of a task; return False if another one was stored meanwhile."""

    @abstractmethod
    async def get(self, task_id: UUID) -> TaskRecord | None:
        """Return a task, None if there is none."""

    @abstractmethod
    async def find(self, query: TaskQuery) -> TaskPage:
        """Return tasks, the latest change first. On a shared store the result may lag behind."""

    @abstractmethod
    async def wait(self, task_id: UUID, version: int, seconds: float) -> None:
        """Wait until a task has another version than this one, at most for so long."""

    @abstractmethod
    async def put_value(self, task_id: UUID, name: str, value: bytes, epoch: int = 1) -> None:
        """Store a value beside a task; one of a later epoch stays as it is."""

    @abstractmethod
    async def value(self, task_id: UUID, name: str) -> bytes | None:
        """Return a value, None if there is none."""

    @abstractmethod
    async def drop(self, ended_before: float, changed_before: float) -> None:
        """Drop the tasks that are not open and ended before a time, and all before another one."""


@runtime_checkable
class TaskLog(Protocol):
    """A log that keeps tasks beside its streams."""

    tasks: TaskStore
