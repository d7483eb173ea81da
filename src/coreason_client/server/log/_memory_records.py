"""The records of the memory log: a stream, a conversation. They are changed only under its lock.

Sizes are those in memory. Beside its payload, an entry or a note takes a bytes object and a place
in a list; a stream, a turn and a conversation take objects, ids and places in tables.
"""

from collections.abc import Sequence
from uuid import UUID

from ._rules import begin_epoch, count_latest_turns, cut_page, make_page, new_epoch
from .base import (
    MAX_TURN_BYTES,
    MAX_TURNS,
    Claim,
    Conversation,
    EpochStart,
    NewStream,
    Page,
    StreamMeta,
)

__all__ = ["Stream", "Turns", "memory_of"]

# Bytes beside the payload, measured with CPython 3.11 on a 64-bit machine.
_ENTRY, _STREAM, _TURN, _CONVERSATION = 48, 1200, 280, 750


def memory_of(entries: Sequence[bytes]) -> int:
    """Return the size of entries or notes in memory."""
    return sum(map(len, entries)) + _ENTRY * len(entries)


class Stream:
    """One stream with its entries."""

    __slots__ = (
        "body_gone",
        "cancel_requested",
        "claimed_note",
        "claimed_seq",
        "ended_at",
        "entries",
        "epoch",
        "epochs",
        "journal",
        "last_seq",
        "lease_until",
        "new",
        "opened_at",
        "outcome",
        "released",
        "size",
    )

    def __init__(self, new: NewStream, now: float, lease_until: float) -> None:
        self.new = new
        self.entries: list[bytes] = []
        self.size = 0
        self.epoch = 1
        self.last_seq = 0
        self.journal: list[bytes] = []
        # The state at the beginning of the current epoch.
        self.claimed_seq = self.claimed_note = 0
        self.epochs: tuple[EpochStart, ...] = ()
        self.released: int | None = None  # the epoch that gave it away, until it is claimed
        self.lease_until = lease_until
        self.opened_at = now
        self.outcome: str | None = None
        self.ended_at: float | None = None
        self.cancel_requested = False
        self.body_gone = False

    @property
    def record_size(self) -> int:
        """The size of the stream without its entries and its journal."""
        return _STREAM + len(self.new.question)

    def meta(self) -> StreamMeta:
        new = self.new
        return StreamMeta(
            stream_id=new.stream_id,
            principal=new.principal,
            request_id=new.request_id,
            fingerprint=new.fingerprint,
            epoch=self.epoch,
            last_seq=self.last_seq,
            opened_at=self.opened_at,
            outcome=self.outcome,
            ended_at=self.ended_at,
            cancel_requested=self.cancel_requested,
            body_gone=self.body_gone,
            agent=new.agent,
            epochs=self.epochs,
        )

    def is_lost(self, now: float, unclaimed: float) -> bool:
        """Return True if any process may end the stream, because it has no producer."""
        wait = 0.0 if self.new.agent is None else unclaimed
        return self.lease_until + wait <= now

    def claim(self, lease_until: float) -> Claim:
        """Begin the next epoch for a new owner."""
        self._begin_epoch(lease_until)
        self.released = None
        return Claim(self.new.stream_id, self.epoch, self.last_seq, self.new.question)

    def release(self, now: float) -> None:
        """Begin an epoch without an owner."""
        self.released = self.epoch
        self._begin_epoch(now)

    def _begin_epoch(self, lease_until: float) -> None:
        self.epochs = begin_epoch(self.epochs, self.last_seq, new_epoch())
        self.epoch = self.epochs[-1].epoch
        self.lease_until = lease_until
        self.claimed_seq, self.claimed_note = self.last_seq, len(self.journal)

    def page(self, after_seq: int, after_epoch: int, limit: int) -> Page:
        return make_page(
            self.new.stream_id,
            after_seq,
            after_epoch,
            cut_page(self.entries[after_seq : after_seq + limit]),
            last_seq=self.last_seq,
            epochs=self.epochs,
            ended=self.outcome is not None,
            body_gone=self.body_gone,
        )

    def drop_journal(self) -> int:
        """Drop the journal; return how many bytes were freed."""
        freed = memory_of(self.journal)
        self.journal = []
        return freed

    def drop_body(self) -> int:
        """Drop the entries; return how many bytes were freed."""
        freed, self.size = self.size, 0
        self.entries = []
        self.body_gone = True
        return freed


class Turns:
    """The turns of one conversation, in order, at most one for each stream."""

    __slots__ = ("by_stream", "conversation", "epochs", "size", "touched_at")

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.by_stream: dict[UUID, bytes] = {}
        self.epochs: dict[UUID, int] = {}
        self.size = 0
        self.touched_at = 0.0

    @property
    def memory(self) -> int:
        """The size in memory; `size` is that of the turns alone."""
        if not self.by_stream:
            return 0
        return _CONVERSATION + self.size + _TURN * len(self.by_stream)

    def takes(self, stream_id: UUID, epoch: int) -> bool:
        """Return True if a turn is new, or replaces one of an earlier epoch."""
        return epoch > self.epochs.get(stream_id, 0)

    def add(self, stream_id: UUID, turn: bytes, epoch: int) -> int:
        """Add a turn and drop the oldest ones that exceed the limits of a conversation.

        Return by how many bytes the conversation has grown; the number may be negative.
        """
        before = self.memory
        self.size += len(turn) - len(self.by_stream.get(stream_id, b""))
        self.by_stream[stream_id] = turn
        self.epochs[stream_id] = epoch
        if len(self.by_stream) > MAX_TURNS or self.size > MAX_TURN_BYTES:
            sizes = map(len, reversed(self.by_stream.values()))
            kept = count_latest_turns(sizes, MAX_TURNS, MAX_TURN_BYTES)
            while len(self.by_stream) > kept:
                self.drop_oldest()
        return self.memory - before

    def drop_oldest(self) -> int:
        """Drop the oldest turn; return how many bytes were freed."""
        before, oldest = self.memory, next(iter(self.by_stream))
        del self.epochs[oldest]
        self.size -= len(self.by_stream.pop(oldest))
        return before - self.memory

    def clear(self) -> int:
        """Drop all turns; return how many bytes were freed."""
        freed, self.size = self.memory, 0
        self.by_stream = {}
        self.epochs = {}
        return freed
