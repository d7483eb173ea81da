"""Deliveries in memory."""

from collections.abc import Sequence
from uuid import UUID

from .deliveries import Delivery, DeliveryStore

__all__ = ["MemoryDeliveries"]


class MemoryDeliveries(DeliveryStore):
    """Deliveries that end with the process."""

    def __init__(self) -> None:
        self._by_task: dict[UUID, dict[str, Delivery]] = {}

    async def put(self, delivery: Delivery, limit: int) -> bool:
        """Store a delivery; return False if the task already has `limit` others."""
        stored = self._by_task.get(delivery.task_id, {})
        if delivery.name not in stored and len(stored) >= limit:
            return False
        self._by_task.setdefault(delivery.task_id, {})[delivery.name] = delivery
        return True

    async def replace(self, old: Delivery, new: Delivery) -> bool:
        """Store the next revision; return False if it was changed or deleted meanwhile."""
        stored = self._by_task.get(old.task_id, {})
        current = stored.get(old.name)
        if current is None or current.revision != old.revision:
            return False
        stored[new.name] = new
        return True

    async def all(self, task_id: UUID) -> Sequence[Delivery]:
        """Return the deliveries of a task, ordered by their names."""
        stored = self._by_task.get(task_id, {})
        return [stored[name] for name in sorted(stored)]

    async def delete(self, task_id: UUID, name: str) -> None:
        """Delete a delivery, if there is one."""
        stored = self._by_task.get(task_id, {})
        stored.pop(name, None)
        if not stored:
            self.drop(task_id)

    async def due(self, now: float, limit: int) -> Sequence[Delivery]:
        """Return some deliveries that may be taken over at this time."""
        found = [
            one
            for stored in self._by_task.values()
            for one in stored.values()
            if one.due is not None and one.due <= now
        ]
        return found[:limit]

    def drop(self, task_id: UUID) -> None:
        """Drop all deliveries of a task."""
        self._by_task.pop(task_id, None)
