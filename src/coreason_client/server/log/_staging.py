"""Staged entries (committed, but not yet stored by stream) and the storage formats. No I/O.

If each append went to the pages of its own stream, SQLite would write a whole page for a few
hundred bytes. So the appends of one commit, of all streams, are first written as one record at the
end of a table. When there are enough of them, the entries of each stream are stored as runs, and
the records are deleted. Until then the entries are also kept in memory, so the records are only
read after a restart.

A run is the number of its entries, their lengths, and the entries; numbers have four bytes, little
endian. A record is a sequence of appends, each a stream_id, the number of the first entry (eight
bytes), and a run.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct, pack
from uuid import UUID

_HEAD = Struct("<16sQ")
_HEAD_OF_ONE = Struct("<16sQII")  # of an append with one entry, the usual case
_NUMBER = Struct("<I")
# Whole runs are read for a page, so a run is smaller than a page.
_RUN_ENTRIES = 256
RUN_BYTES = 65_536


def pack_run(entries: Sequence[bytes]) -> bytes:
    """Return entries as a run."""
    count = len(entries)
    return pack(f"<{count + 1}I", count, *map(len, entries)) + b"".join(entries)


def pack_runs(first_seq: int, entries: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield runs of a bounded size, each with the number of its first entry."""
    part: list[bytes] = []
    size = 0
    for entry in entries:
        if part and (len(part) == _RUN_ENTRIES or size + len(entry) > RUN_BYTES):
            yield first_seq, pack_run(part)
            first_seq += len(part)
            part, size = [], 0
        part.append(entry)
        size += len(entry)
    if part:
        yield first_seq, pack_run(part)


def unpack_run(run: bytes) -> list[bytes]:
    """Return the entries of a run.

    Raises:
        ValueError: it is not a run.
    """
    entries, end = _unpack_run(run, 0)
    if end != len(run):
        raise ValueError("the stored entries are followed by other data")
    return entries


def unpack_record(record: bytes) -> Iterator[tuple[UUID, int, list[bytes]]]:
    """Yield the appends of a record: stream_id, number of the first entry, entries.

    Raises:
        ValueError: it is not a record.
    """
    position = 0
    while position < len(record):
        _check_length(record, position + _HEAD.size)
        id_, first_seq = _HEAD.unpack_from(record, position)
        entries, position = _unpack_run(record, position + _HEAD.size)
        yield UUID(bytes=id_), first_seq, entries


def _unpack_run(data: bytes, start: int) -> tuple[list[bytes], int]:
    """Return the entries of the run at `start`, and the end of the run."""
    lengths_at = start + _NUMBER.size
    _check_length(data, lengths_at)
    (count,) = _NUMBER.unpack_from(data, start)
    end = lengths_at + count * _NUMBER.size
    _check_length(data, end)
    entries: list[bytes] = []
    for (length,) in _NUMBER.iter_unpack(data[lengths_at:end]):
        entries.append(data[end : end + length])
        end += length
    _check_length(data, end)
    return entries, end


def _check_length(data: bytes, end: int) -> None:
    if end > len(data):
        raise ValueError("the stored entries are truncated")


class _Staged:
    """Consecutive entries of one stream from `first_seq` on."""

    __slots__ = ("entries", "first_seq")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.entries: list[bytes] = []


class StagedEntries:
    """The staged entries of each stream, and the record of the current transaction."""

    __slots__ = ("_by_stream", "_record", "count", "dropped", "size")

    def __init__(self) -> None:
        self._by_stream: dict[UUID, _Staged] = {}
        self._record: list[bytes] = []
        self.count = 0
        """The number of entries in the records."""
        self.size = 0
        """The size of these entries in bytes."""
        self.dropped = False
        """True if the records contain entries that were dropped."""

    def __iter__(self) -> Iterator[tuple[UUID, int, list[bytes]]]:
        """Yield the id, the number of the first entry and the entries of each stream."""
        for stream_id, staged in self._by_stream.items():
            yield stream_id, staged.first_seq, staged.entries

    def add(self, stream_id: UUID, first_seq: int, entries: Sequence[bytes]) -> None:
        """Add an append; it must follow the last entry of its stream."""
        if len(entries) == 1:
            size = len(entries[0])
            self._record += (_HEAD_OF_ONE.pack(stream_id.bytes, first_seq, 1, size), entries[0])
        else:
            size = sum(map(len, entries))
            self._record += (_HEAD.pack(stream_id.bytes, first_seq), pack_run(entries))
        staged = self._by_stream.get(stream_id)
        if staged is None:
            staged = self._by_stream[stream_id] = _Staged(first_seq)
        staged.entries += entries
        self.count += len(entries)
        self.size += size

    def take_record(self) -> bytes:
        """Return the record of the appends since the last call, empty if there were none."""
        record, self._record = self._record, []
        return b"".join(record)

    def load(self, records: Iterable[bytes]) -> None:
        """Replace all entries with those of the records.

        Raises:
            ValueError: one of them is not a record.
        """
        self.clear()
        for record in records:
            for append in unpack_record(record):
                self.add(*append)
        self._record.clear()

    def after(self, stream_id: UUID, seq: int) -> Iterable[bytes]:
        """Return the staged entries of a stream that have higher numbers."""
        staged = self._by_stream.get(stream_id)
        if staged is None:
            return ()
        return islice(staged.entries, max(seq + 1 - staged.first_seq, 0), None)

    def last_seq(self, stream_id: UUID) -> int | None:
        """Return the number of a stream's last entry, None if no entry of it is staged."""
        staged = self._by_stream.get(stream_id)
        return None if staged is None else staged.first_seq + len(staged.entries) - 1

    def drop(self, stream_id: UUID) -> None:
        """Drop the entries of one stream; the records still contain them."""
        if self._by_stream.pop(stream_id, None) is not None:
            self.dropped = True

    def clear(self) -> None:
        """Drop all entries."""
        self._by_stream.clear()
        self._record.clear()
        self.count = self.size = 0
        self.dropped = False
