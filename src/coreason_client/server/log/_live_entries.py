"""The recent entries of a log in one process, and the readers that wait for more."""

import threading
from collections.abc import Iterable, Sequence
from uuid import UUID

from ._recent_entries import RecentEntries
from ._waiters import Waiters

__all__ = ["LiveEntries"]


class LiveEntries:
    """Recent entries and waiting readers under one lock; it may be used from any thread.

    Hold `lock` to use `recent` or `waiters` directly.
    """

    __slots__ = ("lock", "recent", "waiters")

    def __init__(self, max_bytes: int) -> None:
        self.lock = threading.Lock()
        self.recent = RecentEntries(max_bytes)
        self.waiters = Waiters()

    def add(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], *, ended: bool
    ) -> None:
        """Add entries that have been committed, and wake the readers of their stream."""
        with self.lock:
            self.recent.add(stream_id, epoch, first_seq, entries, ended=ended)
            self.waiters.wake(stream_id)

    def drop(self, stream_ids: Iterable[UUID]) -> None:
        """Drop the entries of streams."""
        with self.lock:
            for stream_id in stream_ids:
                self.recent.drop(stream_id)

    def clear(self) -> None:
        """Drop all entries."""
        with self.lock:
            self.recent.clear()

    def wake_all(self) -> None:
        """End the waits of all readers."""
        with self.lock:
            self.waiters.wake_all()
