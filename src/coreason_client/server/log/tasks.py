"""The contract of a store of tasks: small records that a protocol keeps beside the streams.

A task joins several streams, its turns. What it is follows from their entries; the record has only
what must be found without reading them: the owner, the context, the state and when it changed.

The rules, each checked by the contract test suite:

* Beginning. `begin` opens the stream of a request and stores its task in one step, so a stream of a
  task that has none stored does not exist. The id of a task is that of its first stream.
* Changes. Each change of a record has a unique revision and names the one that it follows. Of two
  changes of one revision one wins. A change that is repeated, because its reply was lost, succeeds
  without effect, also after further changes.
* Start. The question of a stream says whether its agent has been started. `start` changes it, and
  is fenced like an append: of several processes that want to start an agent, one succeeds.
* End. `end` ends a stream and stores the state of its task in one step. On a store that is spread
  over many machines, a later stream of a task may be elsewhere: then the state is stored after the
  end, and until that is done the stream is found by `claim_lost`, which calls `on_ended`.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol, Self, runtime_checkable
from uuid import UUID, uuid4

from .base import Conversation, NewStream, StreamMeta
from .deliveries import DeliveryStore

__all__ = [
    "KEPT_REVISIONS",
    "Begun",
    "StreamEnd",
    "TaskChange",
    "TaskLog",
    "TaskPage",
    "TaskPosition",
    "TaskQuery",
    "TaskRecord",
    "TaskStore",
    "TurnText",
    "is_applied",
]

KEPT_REVISIONS: Final = 8
"""The latest revisions of a task that a store remembers."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task. The log does not read `data`.

    A task without a state is not found by queries.

    `changed` is the time of the last change of `state`, in seconds. `version` is 1 for a new task
    and grows by 1 with each update; `revision` is the unique name of the update, empty for a new
    task. `open` is True while the task may go on.
    """

    task_id: UUID
    principal: str
    context_id: str
    state: str
    changed: float
    data: bytes = b""
    open: bool = True
    version: int = 1
    revision: str = ""

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
        number, name = self.version + 1, uuid4().hex
        return replace(self, version=number, revision=name, **fields)  # type: ignore[arg-type]


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


class TaskChange(NamedTuple):
    """The record of a task before and after a change, and the values that are stored with it."""

    old: TaskRecord
    new: TaskRecord
    values: Mapping[str, bytes] = {}


def is_applied(known: Sequence[str], version: int, change: TaskChange) -> bool | None:
    """Return True if a change has been stored already, False if it is late, None if it fits.

    `known` are the latest revisions of the stored record, newest first; `version` is its version,
    which an earlier release counts without a revision.
    """
    if change.new.revision in known:
        return True
    current = known[0] if known else ""
    return None if (current, version) == (change.old.revision, change.old.version) else False


class Begun(NamedTuple):
    """The stream that answers a request, and its task.

    `opened` is its description if this call has opened it, None if it was known.
    """

    stream_id: UUID
    record: TaskRecord | None
    opened: StreamMeta | None


class TurnText(NamedTuple):
    """The turn that a stream adds to its conversation."""

    conversation: Conversation
    turn: bytes


class StreamEnd(NamedTuple):
    """The arguments of `StreamLog.close`, and the turn that is stored with the end, if any."""

    stream_id: UUID
    epoch: int
    first_seq: int
    entries: Sequence[bytes]
    outcome: str
    text: TurnText | None = None


class TaskStore(ABC):
    """Keeps tasks. Each operation is atomic, and may be called on any replica."""

    deliveries: DeliveryStore
    """The receivers of the events of tasks; the deliveries of a task are dropped with it."""

    on_ended: Callable[[UUID], Awaitable[None]] | None = None
    """Stores the state of a task whose last stream has ended; see the module."""

    @abstractmethod
    async def begin(
        self,
        stream: NewStream,
        record: TaskRecord,
        values: Mapping[str, bytes],
        replaces: UUID | None = None,
    ) -> Begun:
        """Open the stream of a request, and store its task and the values of the task.

        If the request is known, nothing is stored. A request whose stream is `replaces` counts as
        unknown, and names the new stream from then on.

        Raises:
            RequestConflict: the request is known with another fingerprint.
        """

    @abstractmethod
    async def add_turn(self, stream: NewStream, change: TaskChange) -> StreamMeta | None:
        """Open a further stream of a task; return None if the task was changed meanwhile."""

    @abstractmethod
    async def start(self, stream_id: UUID, epoch: int, question: bytes) -> None:
        """Replace the question of a stream before its agent starts; raises like an append."""

    @abstractmethod
    async def end(self, end: StreamEnd, change: TaskChange) -> bool:
        """End a stream of a task, and store its state; raises like `StreamLog.close`.

        Return False if the task was changed meanwhile; then the stream may have ended or not.
        """

    @abstractmethod
    async def update(self, change: TaskChange) -> bool:
        """Store a change and its values; return False if another one was stored meanwhile."""

    @abstractmethod
    async def get(self, task_id: UUID) -> TaskRecord | None:
        """Return a task, None if there is none."""

    @abstractmethod
    async def find(self, query: TaskQuery) -> TaskPage:
        """Return tasks, the latest change first. On a shared store the result may lag behind."""

    @abstractmethod
    async def wait(self, record: TaskRecord, seconds: float) -> None:
        """Wait until a task is another one than this record, at most for so long."""

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
