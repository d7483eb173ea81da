"""The rules of the contract that several logs apply. No I/O."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from ..errors import Fenced, OutOfSequence, PositionGone
from .base import PAGE_BYTES, AgentVersion, Notes, Page

__all__ = [
    "are_notes_repeated",
    "check_last_entries",
    "count_latest_turns",
    "cut_page",
    "is_repeated",
    "make_page",
    "may_claim_durable",
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
    claimed_seq: int = 0,
) -> bool:
    """Return True if the log already holds the entries of an append in full, False if it is new.

    `claimed_seq` is the number of the last entry when the current epoch began: an earlier epoch
    wrote the entries up to it.

    Raises:
        Fenced: the epoch is over, or the stream has ended.
        OutOfSequence: the append does not follow the last entry.
    """
    repeated = claimed_seq < first_seq <= first_seq + count - 1 <= last_seq
    if epoch != current_epoch or (ended and not repeated):
        raise Fenced(stream_id, epoch)
    if not repeated and first_seq != last_seq + 1:
        raise OutOfSequence(stream_id, first_seq, last_seq)
    return repeated


def are_notes_repeated(
    stream_id: UUID, notes: Notes, *, last_note: int, claimed_note: int, last_seq: int
) -> bool:
    """Return True if the log already holds the notes of an append, False if they are new.

    `claimed_note` is the number of the last note when the current epoch began.

    Raises:
        OutOfSequence: the notes do not follow the last one; the error has the number of entries.
    """
    last = notes.first + len(notes.notes) - 1
    repeated = claimed_note < notes.first <= last <= last_note
    if not repeated and notes.first != last_note + 1:
        raise OutOfSequence(stream_id, last_seq + 1, last_seq)
    return repeated


def may_claim_durable(
    now: float, lease: float, lease_until: float, held: AgentVersion, claimant: AgentVersion
) -> bool:
    """Return True if a process may take over a durable stream of an agent.

    Another version of the agent waits one lease longer, because a replay with the same version is
    more likely to succeed.
    """
    if held.agent_id != claimant.agent_id:
        return False
    wait = 0.0 if held.version == claimant.version else lease
    return lease_until + wait <= now


def check_last_entries(entries: Sequence[bytes]) -> None:
    """Check that the end of a stream has at least one entry, which tells readers about it.

    Raises:
        ValueError: there are no entries.
    """
    if not entries:
        raise ValueError("a stream must end with an entry, got no entries")


def make_page(
    stream_id: UUID,
    after_seq: int,
    entries: Sequence[bytes],
    *,
    last_seq: int,
    ended: bool,
    body_gone: bool,
) -> Page:
    """Return the page of entries that follow a position.

    `last_seq` is the number of the last entry of the stream. `ended` and `body_gone` describe the
    stream: it has ended, its entries have been dropped.

    Raises:
        PositionGone: entries that follow the position have been dropped.
    """
    if body_gone and after_seq < last_seq:
        raise PositionGone(stream_id, after_seq)
    return Page(entries, ended and after_seq + len(entries) >= last_seq)


def take_page(entries: Iterable[bytes]) -> list[bytes]:
    """Return the first entries, up to and including the one that exceeds `PAGE_BYTES`."""
    page: list[bytes] = []
    size = 0
    for entry in entries:
        page.append(entry)
        size += len(entry)
        if size > PAGE_BYTES:
            break
    return page


def cut_page(entries: list[bytes]) -> list[bytes]:
    """Do the same as `take_page`, faster in the usual case that all entries fit."""
    return entries if sum(map(len, entries)) <= PAGE_BYTES else take_page(entries)


def may_have_more(page: bytes, count: int, limit: int) -> bool:
    """Return True if a page is full, so that more entries may follow it.

    `page` is the concatenation of its `count` entries; `limit` is the number of entries requested.
    """
    return count >= limit or len(page) > PAGE_BYTES


def count_latest_turns(sizes: Iterable[int], max_turns: int, max_bytes: int) -> int:
    """Return how many of the latest turns to keep: up to both limits, but always the newest one.

    `sizes` are the sizes of the turns in bytes, newest first.
    """
    count = total = 0
    for size in sizes:
        total += size
        if count == max_turns or (count and total > max_bytes):
            break
        count += 1
    return count
