"""The contract of a store of deliveries: who is sent the events of a task, and how far that is.

A delivery belongs to a task and ends with it. At most one process works on a delivery at a time.
That needs no lock: `due` is the time from which any process may take a delivery over, and a process
takes it over by moving `due` into the future, which only one of them can do.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self
from uuid import UUID, uuid4

__all__ = ["Delivery", "DeliveryStore"]

_KEEP: Final = b"\0keep"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery. The log does not read `data` and `progress`.

    `due` is the time in seconds at which it may be taken over, None if nothing is left to do.
    `revision` is different after each change.
    """

    task_id: UUID
    name: str
    data: bytes
    progress: bytes
    due: float | None
    revision: str = field(default_factory=lambda: uuid4().hex)

    def changed(self, *, due: float | None, progress: bytes = _KEEP) -> Self:
        """Return the next revision, with another time and other progress."""
        kept = self.progress if progress is _KEEP else progress
        return replace(self, due=due, progress=kept, revision=uuid4().hex)


class DeliveryStore(ABC):
    """Keeps deliveries. Each operation is atomic, and may be called on any replica."""

    @abstractmethod
    async def put(self, delivery: Delivery, limit: int) -> bool:
        """Store a delivery, in place of the one with its name if there is one.

        Return False if the task already has `limit` others.
        """

    @abstractmethod
    async def replace(self, old: Delivery, new: Delivery) -> bool:
        """Store the next revision; return False if it was changed or deleted meanwhile."""

    @abstractmethod
    async def all(self, task_id: UUID) -> Sequence[Delivery]:
        """Return the deliveries of a task, ordered by their names."""

    @abstractmethod
    async def delete(self, task_id: UUID, name: str) -> None:
        """Delete a delivery, if there is one."""

    @abstractmethod
    async def due(self, now: float, limit: int) -> Sequence[Delivery]:
        """Return some deliveries that may be taken over at this time."""
