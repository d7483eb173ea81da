"""Rules of the contract that more than one log applies. No I/O."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from ..errors import Fenced, OutOfSequence
from .base import PAGE_BYTES

__all__ = [
    "check_last_entries",
    "count_latest_turns",
    "cut_page",
    "is_repeated",
    "may_have_more",
    "take_page",
]


def is_repeated(
    stream_id: UUID,
    epoch: int,
    first_seq: int,
    count: int,
    *,
    current_epoch: int,
    last_seq: int,
    ended: bool,
) -> bool:
    """Return True if the log already holds the entries of an append in full, False if it is new.

    Raises:
        Fenced: the epoch is over, or the stream has ended.
        OutOfSequence: the append does not follow the last entry.
    """
    repeated = first_seq + count - 1 <= last_seq
    if epoch != current_epoch or (ended and not repeated):
        raise Fenced(stream_id, epoch)
    if not repeated and first_seq != last_seq + 1:
        raise OutOfSequence(stream_id, first_seq, last_seq)
    return repeated


def check_last_entries(entries: Sequence[bytes]) -> None:
    """Refuse to end a stream without an entry that says so.

    Raises:
        ValueError: there are no entries.
    """
    if not entries:
        raise ValueError("a stream must end with an entry that says so, got no entries")


def take_page(entries: Iterable[bytes]) -> list[bytes]:
    """Return the entries up to the one that passes `PAGE_BYTES`."""
    page: list[bytes] = []
    size = 0
    for entry in entries:
        page.append(entry)
        size += len(entry)
        if size > PAGE_BYTES:
            break
    return page


def cut_page(entries: list[bytes]) -> list[bytes]:
    """Return what `take_page` does, faster where all entries fit, as they usually do."""
    return entries if sum(map(len, entries)) <= PAGE_BYTES else take_page(entries)


def may_have_more(page: bytes, count: int, limit: int) -> bool:
    """Return True if a page was cut: there may be more entries behind it.

    `page` is what its `count` entries are together, and `limit` how many were asked for.
    """
    return count >= limit or len(page) > PAGE_BYTES


def count_latest_turns(sizes: Iterable[int], most_turns: int, most_bytes: int) -> int:
    """Return how many of the latest turns are within the bounds; the newest one always is.

    `sizes` are those of the turns in bytes, newest first.
    """
    count = total = 0
    for size in sizes:
        total += size
        if count == most_turns or (count and total > most_bytes):
            break
        count += 1
    return count
