"""What the logs of this package share for the many small packets of live streams."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, closing
from uuid import UUID

from ._waiters import Look, Waiter, Waiters, write_when_woken
from .base import Follower, Page, StreamLog

__all__ = ["LiveLog", "WaitingFollower"]


class LiveLog(StreamLog):
    """A log that begins an append without a task, and keeps a reader between its pages.

    A subclass gives `_begin` the public name `begin_append` too, without a call in between.
    """

    @abstractmethod
    def _begin(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> "bool | asyncio.Future[bool]":
        """Begin an append; return its result if it is known at once, otherwise a future of it."""

    @abstractmethod
    def _follower(self, stream_id: UUID, after_seq: int) -> Follower:
        """Return a reader of one stream from a position on."""

    # `append` and `read` call no public method: a subclass may replace any of those.

    async def append(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> bool:
        """Append entries; return True if somebody has asked for a cancel."""
        begun = self._begin(stream_id, epoch, first_seq, entries)
        return begun if isinstance(begun, bool) else await begun

    async def read(self, stream_id: UUID, after_seq: int, limit: int, wait: float) -> Page:
        """Return up to `limit` entries after a position; if there are none, wait."""
        with closing(self._follower(stream_id, after_seq)) as follower:
            return await follower.next(limit, wait)

    def follow(self, stream_id: UUID, after_seq: int) -> Follower:
        """Return a reader of one stream from a position on."""
        return self._follower(stream_id, after_seq)


class WaitingFollower(Follower):
    """A reader of a log that lives in one process.

    `look` returns a page that is at hand, `load` gets it from where it is stored. `lock` is that of
    `waiters`.
    """

    __slots__ = ("_load", "_lock", "_look", "_stream_id", "_waiters", "position", "waiter")

    def __init__(
        self,
        stream_id: UUID,
        after_seq: int,
        lock: AbstractContextManager[bool],
        waiters: Waiters,
        look: Look,
        load: Callable[[UUID, int, int], Awaitable[Page]],
    ) -> None:
        self.position = after_seq
        self.waiter = Waiter()
        self._stream_id = stream_id
        self._lock = lock
        self._waiters = waiters
        self._look = look
        self._load = load
        with lock:
            waiters.enter(stream_id, self)

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return up to `limit` entries; if there are none, wait."""
        stream_id, look = self._stream_id, self._look
        # Before the look at the log: what is appended from here on wakes this waiter.
        self.waiter.clear()
        page = look(stream_id, self.position, limit)
        if page is None:
            page = await self._load(stream_id, self.position, limit)
        if not (page.entries or page.ended or wait <= 0):
            on_wake = write_when_woken(
                self, stream_id, look, limit, wait, write, wait_if_nothing=True
            )
            await self.waiter.wait(wait, on_wake)
            at_hand = look(stream_id, self.position, limit)
            page = at_hand or await self._load(stream_id, self.position, limit)
        self.position += len(page.entries)
        return page

    def close(self) -> None:
        """Wait no more."""
        self.waiter.close()
        with self._lock:
            self._waiters.leave(self._stream_id, self)
