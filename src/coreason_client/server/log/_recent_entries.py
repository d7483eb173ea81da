"""A cache of the latest entries of running streams, so that live readers need not ask the store."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from uuid import UUID

from ._live import Waiters
from ._rules import cut_page
from .base import PAGE_BYTES, Page


class _Recent:
    """The entries of one stream from `first_seq` on, all of one epoch.

    `lowest` is the lowest position that is known to be of this epoch, or the beginning.
    """

    __slots__ = ("ended", "entries", "epoch", "first_seq", "lowest", "size")

    def __init__(self, epoch: int, first_seq: int) -> None:
        self.epoch = epoch
        self.first_seq = first_seq
        self.lowest = first_seq if first_seq > 1 else 0
        self.entries: list[bytes] = []
        self.size = 0
        self.ended = False


class RecentEntries:
    """The latest entries of each stream, up to `max_bytes` for all streams together.

    Entries are added after the store has them, so whatever the cache drops can be read there.
    """

    __slots__ = ("_by_stream", "_max_bytes", "_size")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._by_stream: OrderedDict[UUID, _Recent] = OrderedDict()

    def add(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], *, ended: bool
    ) -> None:
        """Add the entries of an append."""
        recent = self._by_stream.get(stream_id)
        if (
            recent is None
            or recent.epoch != epoch
            or recent.first_seq + len(recent.entries) != first_seq
        ):
            self.drop(stream_id)
            recent = self._by_stream[stream_id] = _Recent(epoch, first_seq)
        recent.entries += entries
        recent.ended = ended
        added = sum(map(len, entries))
        recent.size += added
        self._size += added
        if recent.size > 2 * PAGE_BYTES:
            self._shorten(recent)
        self._by_stream.move_to_end(stream_id)
        while self._size >= self._max_bytes and self._by_stream:
            self.drop(next(iter(self._by_stream)))

    def page(self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int) -> Page | None:
        """Return the entries that follow a position, None if the store must be asked.

        That is so for a position whose own entry is not known here with the same epoch: only the
        store knows whether it is gone.
        """
        recent = self._by_stream.get(stream_id)
        if recent is None or after_epoch != recent.epoch:
            return None
        start = after_seq + 1 - recent.first_seq
        left = len(recent.entries) - start
        if after_seq < recent.lowest or left < 0:
            return None
        entries = cut_page(recent.entries[start : start + limit])
        return Page(entries, recent.ended and len(entries) == left, after_epoch)

    def drop(self, stream_id: UUID) -> None:
        """Drop the entries of a stream."""
        recent = self._by_stream.pop(stream_id, None)
        if recent is not None:
            self._size -= recent.size

    def clear(self) -> None:
        """Drop all entries."""
        self._by_stream.clear()
        self._size = 0

    def _shorten(self, recent: _Recent) -> None:
        # To half of the limit, so that the cost of moving the rest is spread over many entries.
        freed = count = 0
        for entry in recent.entries:
            if recent.size - freed <= PAGE_BYTES:
                break
            freed += len(entry)
            count += 1
        count = min(count, len(recent.entries) - 1)
        freed = sum(map(len, recent.entries[:count]))
        del recent.entries[:count]
        recent.first_seq += count
        recent.lowest = recent.first_seq - 1
        recent.size -= freed
        self._size -= freed


# The recent entries of a log in one process, and the readers that wait for more.


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
