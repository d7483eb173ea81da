"""The rules of the contract that several logs apply. No I/O."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from secrets import randbits
from time import time
from uuid import UUID

from ..errors import Fenced, OutOfSequence, PositionGone
from .base import PAGE_BYTES, AgentVersion, EpochStart, NewStream, Notes, Page, StreamMeta, epoch_at

# The epoch of a claim: the milliseconds since 2025, and then random bits. Until 2059 it is below
# 2**53, so Lua and JavaScript can hold it.
_EPOCH_ORIGIN = 1_735_689_600.0
_EPOCH_RANDOM_BITS = 13
_DIGEST = 40  # hex digits of a SHA-256, enough to be unique


def new_meta(stream: NewStream, now: float) -> StreamMeta:
    """Return the description of a new stream."""
    return StreamMeta(
        stream_id=stream.stream_id,
        principal=stream.principal,
        request_id=stream.request_id,
        fingerprint=stream.fingerprint,
        epoch=1,
        last_seq=0,
        opened_at=now,
        outcome=None,
        ended_at=None,
        cancel_requested=False,
        body_gone=False,
        agent=stream.agent,
    )


def new_epoch(now: float | None = None) -> int:
    """Return a number for the epoch of a claim, which no other claim gets.

    If a store loses its latest state, a counter in it would count some epochs again.
    """
    passed = (time() if now is None else now) - _EPOCH_ORIGIN
    return max(int(passed * 1000), 0) << _EPOCH_RANDOM_BITS | randbits(_EPOCH_RANDOM_BITS)


def begin_epoch(
    epochs: tuple[EpochStart, ...], last_seq: int, number: int
) -> tuple[EpochStart, ...]:
    """Return the epochs of a stream after a claim; `number` is the one that the claimant made."""
    current = epochs[-1].epoch if epochs else 1
    return (*epochs, EpochStart(last_seq + 1, max(current + 1, number)))


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

    `claimed_note` is the number of the last note when the current epoch began. An append without
    notes may name the next one, so that the log can tell whether it has all before it.

    Raises:
        OutOfSequence: the notes do not follow the last one; the error has the number of entries.
    """
    last = notes.first + len(notes.notes) - 1
    repeated = claimed_note < notes.first and last <= last_note
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


def check_position(
    stream_id: UUID,
    after_seq: int,
    after_epoch: int,
    *,
    last_seq: int,
    epochs: Sequence[EpochStart],
    ended: bool,
) -> None:
    """Check that the entry at a position is still the one that was read.

    A producer may send entries again that the store has lost, so a position after the last entry
    is kept while its epoch is the current one.

    Raises:
        PositionGone: it is not.
    """
    if after_seq and (
        after_epoch != epoch_at(epochs, after_seq) or (ended and after_seq > last_seq)
    ):
        raise PositionGone(stream_id, after_seq, replaced=True)


def make_page(
    stream_id: UUID,
    after_seq: int,
    after_epoch: int,
    entries: Sequence[bytes],
    *,
    last_seq: int,
    epochs: Sequence[EpochStart],
    ended: bool,
    body_gone: bool,
) -> Page:
    """Return the page of entries that follow a position.

    `last_seq` is the number of the last entry of the stream, `epochs` are the beginnings of its
    later epochs. `ended` and `body_gone` describe the stream: it has ended, its entries have been
    dropped.

    Raises:
        PositionGone: entries that follow the position have been dropped, or `check_position`.
    """
    check_position(stream_id, after_seq, after_epoch, last_seq=last_seq, epochs=epochs, ended=ended)
    if body_gone and after_seq < last_seq:
        raise PositionGone(stream_id, after_seq)
    if not entries:
        return Page(entries, ended and after_seq >= last_seq, after_epoch)
    read = after_seq + len(entries)
    return Page(entries, ended and read >= last_seq, epoch_at(epochs, read))


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


def text(value: str) -> bytes:
    """Encode a string for a store; lone surrogates are allowed."""
    return value.encode("utf-8", "surrogatepass")


def digest(principal: str, rest: bytes) -> str:
    """Return a short name for a request or a conversation, whatever its length and characters."""
    # The length makes the bytes of each pair unique.
    return sha256(b"%d:%b%b" % (len(rest), rest, text(principal))).hexdigest()[:_DIGEST]
