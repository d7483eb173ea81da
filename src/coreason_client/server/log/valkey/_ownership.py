"""The streams that this process writes, and their latest entries."""

import time
from collections.abc import Callable, Sequence
from uuid import UUID

from .._tails import Tails
from ..base import Page

__all__ = ["Ownership"]

_REMEMBERED = 60.0  # seconds after the end of a lease
_TAIL_BYTES = 16 * 1024 * 1024  # of the latest entries of all streams together


class Ownership:
    """Which streams are written here, and until when that is sure.

    While it is sure, nobody else can have added to a stream: its readers in this process are woken
    directly, and read the latest entries without asking the store. A lease that was not renewed in
    time may have been claimed by another process, so ownership ends with it.
    """

    __slots__ = ("_clock", "_tails", "_until")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[UUID, float] = {}
        self._tails = Tails(_TAIL_BYTES)

    def now(self) -> float:
        """Return the time from which a lease that is asked for now counts."""
        return self._clock()

    def own(self, stream_id: UUID, until: float) -> None:
        """Record a lease."""
        self._until[stream_id] = until

    def extend(self, stream_id: UUID, until: float) -> bool:
        """Record a renewal if the stream is written here, and return whether it is.

        It may be called from any thread.
        """
        known = stream_id in self._until
        if known:
            self._until[stream_id] = until
        return known

    def disown(self, stream_id: UUID) -> bool:
        """Forget a stream; return True if it was written here."""
        self._tails.drop(stream_id)
        return self._until.pop(stream_id, None) is not None

    def owns(self, stream_id: UUID) -> bool:
        """Return True if nobody else can write the stream now."""
        until = self._until.get(stream_id)
        return until is not None and until > self._clock()

    def add(self, stream_id: UUID, first_seq: int, entries: Sequence[bytes]) -> None:
        """Keep what the store has taken, if the stream is written here."""
        if stream_id in self._until:
            self._tails.add(stream_id, first_seq, entries, ended=False)

    def drop(self, stream_id: UUID) -> None:
        """Forget the entries of a stream: readers ask the store."""
        self._tails.drop(stream_id)

    def page(self, stream_id: UUID, after_seq: int, limit: int) -> Page | None:
        """Return what follows a position, None when only the store knows."""
        return self._tails.page(stream_id, after_seq, limit) if self.owns(stream_id) else None

    def forget_old(self) -> None:
        """Forget the streams whose leases ran out a while ago.

        Not at once: a lease that nobody claimed can still be renewed, and then nobody else has
        added to the stream either.
        """
        late = self._clock() - _REMEMBERED
        for stream_id in [id_ for id_, until in list(self._until.items()) if until <= late]:
            self.disown(stream_id)
