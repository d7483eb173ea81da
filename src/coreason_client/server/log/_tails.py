"""The latest entries of the streams at work, so that live readers need not ask the store."""

from collections import OrderedDict
from collections.abc import Sequence
from uuid import UUID

from ._rules import cut_page
from .base import PAGE_BYTES, Page

__all__ = ["Tails"]


class _Tail:
    """The entries of one stream from `first_seq` on."""

    __slots__ = ("ended", "entries", "first_seq", "size")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.entries: list[bytes] = []
        self.size = 0
        self.ended = False


class Tails:
    """A bounded cache; what it does not hold is in the store.

    Entries come here after they are in the store, so whatever is dropped can be read there.
    """

    __slots__ = ("_by_stream", "_most_bytes", "_size")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._size = 0
        self._by_stream: OrderedDict[UUID, _Tail] = OrderedDict()

    def add(
        self, stream_id: UUID, first_seq: int, entries: Sequence[bytes], *, ended: bool
    ) -> None:
        """Add what was appended."""
        tail = self._by_stream.get(stream_id)
        if tail is None or tail.first_seq + len(tail.entries) != first_seq:
            self.drop(stream_id)
            tail = self._by_stream[stream_id] = _Tail(first_seq)
        tail.entries += entries
        tail.ended = ended
        added = sum(map(len, entries))
        tail.size += added
        self._size += added
        if tail.size > 2 * PAGE_BYTES:
            self._shorten(tail)
        self._by_stream.move_to_end(stream_id)
        while self._size >= self._most_bytes and self._by_stream:
            self.drop(next(iter(self._by_stream)))

    def page(self, stream_id: UUID, after_seq: int, limit: int) -> Page | None:
        """Return what follows a position, None when only the store knows."""
        tail = self._by_stream.get(stream_id)
        if tail is None or after_seq + 1 < tail.first_seq:
            return None
        start = after_seq + 1 - tail.first_seq
        entries = cut_page(tail.entries[start : start + limit])
        return Page(entries, tail.ended and start + len(entries) >= len(tail.entries))

    def drop(self, stream_id: UUID) -> None:
        """Forget a stream."""
        tail = self._by_stream.pop(stream_id, None)
        if tail is not None:
            self._size -= tail.size

    def _shorten(self, tail: _Tail) -> None:
        # By half, so that the cost of moving the rest is spread over many entries.
        freed = count = 0
        for entry in tail.entries:
            if tail.size - freed <= PAGE_BYTES:
                break
            freed += len(entry)
            count += 1
        count = min(count, len(tail.entries) - 1)
        freed = sum(map(len, tail.entries[:count]))
        del tail.entries[:count]
        tail.first_seq += count
        tail.size -= freed
        self._size -= freed
