"""The records of the memory log: a stream, a conversation. They are changed only under its lock."""

from uuid import UUID

from ._rules import count_latest_turns, cut_page, make_page
from .base import MAX_TURN_BYTES, MAX_TURNS, Conversation, NewStream, Page, StreamMeta

__all__ = ["Stream", "Turns"]


class Stream:
    """One stream with its entries."""

    __slots__ = (
        "body_gone",
        "cancel_requested",
        "ended_at",
        "entries",
        "epoch",
        "last_seq",
        "lease_until",
        "new",
        "opened_at",
        "outcome",
        "size",
    )

    def __init__(self, new: NewStream, now: float, lease_until: float) -> None:
        self.new = new
        self.entries: list[bytes] = []
        self.size = 0
        self.epoch = 1
        self.last_seq = 0
        self.lease_until = lease_until
        self.opened_at = now
        self.outcome: str | None = None
        self.ended_at: float | None = None
        self.cancel_requested = False
        self.body_gone = False

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
        )

    def page(self, after_seq: int, limit: int) -> Page:
        return make_page(
            self.new.stream_id,
            after_seq,
            cut_page(self.entries[after_seq : after_seq + limit]),
            last_seq=self.last_seq,
            ended=self.outcome is not None,
            body_gone=self.body_gone,
        )

    def drop_body(self) -> int:
        """Drop the entries; return how many bytes were freed."""
        freed, self.size = self.size, 0
        self.entries = []
        self.body_gone = True
        return freed


class Turns:
    """The turns of one conversation, in order, at most one for each stream."""

    __slots__ = ("by_stream", "conversation", "size", "touched_at")

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.by_stream: dict[UUID, bytes] = {}
        self.size = 0
        self.touched_at = 0.0

    def add(self, stream_id: UUID, turn: bytes) -> int:
        """Add a turn and drop the oldest ones that exceed the limits of a conversation.

        Return by how many bytes the conversation has grown; the number may be negative.
        """
        before = self.size
        self.by_stream[stream_id] = turn
        self.size += len(turn)
        if len(self.by_stream) > MAX_TURNS or self.size > MAX_TURN_BYTES:
            sizes = map(len, reversed(self.by_stream.values()))
            kept = count_latest_turns(sizes, MAX_TURNS, MAX_TURN_BYTES)
            while len(self.by_stream) > kept:
                self.drop_oldest()
        return self.size - before

    def drop_oldest(self) -> int:
        """Drop the oldest turn; return how many bytes were freed."""
        freed = len(self.by_stream.pop(next(iter(self.by_stream))))
        self.size -= freed
        return freed

    def clear(self) -> int:
        """Drop all turns; return how many bytes were freed."""
        freed, self.size = self.size, 0
        self.by_stream = {}
        return freed
