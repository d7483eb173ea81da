"""The streams that this event loop writes, and their latest entries."""

import time
from collections.abc import Callable, Sequence
from uuid import UUID

from .._recent_entries import RecentEntries
from ..base import Page

__all__ = ["Ownership"]

_REMEMBER_SECONDS = 60.0  # after the end of a lease
_RECENT_BYTES = 16 * 1024 * 1024  # of the latest entries of all streams together


class Ownership:
    """The streams that this event loop writes, each until the end of its lease.

    During the lease no other process can append to a stream, so its readers in this process are
    woken directly, and read the latest entries without asking the store. After the end of the lease
    another process may have claimed the stream, so ownership ends with it.
    """

    __slots__ = ("_clock", "_recent", "_until")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[UUID, float] = {}
        self._recent = RecentEntries(_RECENT_BYTES)

    def now(self) -> float:
        """Return the time at which a lease that is requested now starts."""
        return self._clock()

    def own(self, stream_id: UUID, until: float) -> None:
        """Record a lease."""
        self._until[stream_id] = until

    def own_new(self, stream_id: UUID, until: float) -> None:
        """Record the lease of a new stream; its first reader need not ask the store for entries."""
        self.own(stream_id, until)
        self.add(stream_id, 1, 1, ())

    def extend(self, stream_id: UUID, until: float) -> bool:
        """Record a renewal; return False if the stream is not written here.

        It may be called from any thread.
        """
        known = stream_id in self._until
        if known:
            self._until[stream_id] = until
        return known

    def disown(self, stream_id: UUID) -> bool:
        """Forget a stream; return True if it was written here."""
        self._recent.drop(stream_id)
        return self._until.pop(stream_id, None) is not None

    def owns(self, stream_id: UUID) -> bool:
        """Return True if no other process can write the stream now."""
        until = self._until.get(stream_id)
        return until is not None and until > self._clock()

    def add(self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]) -> None:
        """Cache entries that the store has accepted, if the stream is written here."""
        if stream_id in self._until:
            self._recent.add(stream_id, epoch, first_seq, entries, ended=False)

    def drop(self, stream_id: UUID) -> None:
        """Drop the cached entries of a stream."""
        self._recent.drop(stream_id)

    def page(self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int) -> Page | None:
        """Return the entries that follow a position, None if the store must be asked."""
        if not self.owns(stream_id):
            return None
        return self._recent.page(stream_id, after_seq, after_epoch, limit)

    def forget_old(self) -> None:
        """Forget the streams whose leases ran out a while ago.

        Not at once: a lease that was not claimed can still be renewed, and then no other process
        has appended to the stream.
        """
        oldest = self._clock() - _REMEMBER_SECONDS
        for stream_id in [id_ for id_, until in list(self._until.items()) if until <= oldest]:
            self.disown(stream_id)
