"""The base of the logs in this package: a short path for the many small appends of live streams."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, closing
from uuid import UUID

from ._waiters import PageLookup, Waiter, Waiters, make_wake_callback
from .base import DurableLog, Follower, Notes, Page

__all__ = ["LiveLog", "LocalFollower"]


class LiveLog(DurableLog):
    """A log that starts an append without a task, and keeps a reader from page to page.

    Subclasses add ``begin_append = _begin_append``, so that an append needs no extra call.
    """

    @abstractmethod
    def _begin_append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> "bool | asyncio.Future[bool]":
        """Begin an append; return its result if it is already known, otherwise a future of it."""

    @abstractmethod
    def _make_follower(self, stream_id: UUID, after_seq: int, after_epoch: int) -> Follower:
        """Return a reader of one stream that starts after a position."""

    # `append` and `read` call no public method, because a subclass may override any of them.

    async def append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        """Append entries and notes; return True if a cancel was requested."""
        begun = self._begin_append(stream_id, epoch, first_seq, entries, notes)
        return begun if isinstance(begun, bool) else await begun

    async def read(
        self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
    ) -> Page:
        """Return up to `limit` entries after a position; if there are none, wait."""
        with closing(self._make_follower(stream_id, after_seq, after_epoch)) as follower:
            return await follower.next(limit, wait)

    def follow(self, stream_id: UUID, after_seq: int, after_epoch: int = 1) -> Follower:
        """Return a reader of one stream that starts after a position."""
        return self._make_follower(stream_id, after_seq, after_epoch)


class LocalFollower(Follower):
    """A reader of a log that only this process uses.

    `lookup` returns a page from memory, None if it is not there; `load` gets it from the storage.
    `lock` protects `waiters`.
    """

    __slots__ = (
        "_load",
        "_lock",
        "_lookup",
        "_stream_id",
        "_waiters",
        "epoch",
        "position",
        "waiter",
    )

    def __init__(
        self,
        stream_id: UUID,
        after_seq: int,
        after_epoch: int,
        lock: AbstractContextManager[bool],
        waiters: Waiters,
        lookup: PageLookup,
        load: Callable[[UUID, int, int, int], Awaitable[Page]],
    ) -> None:
        self.position = after_seq
        self.epoch = after_epoch
        self.waiter = Waiter()
        self._stream_id = stream_id
        self._lock = lock
        self._waiters = waiters
        self._lookup = lookup
        self._load = load
        with lock:
            waiters.add(stream_id, self)

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return up to `limit` entries; if there are none, wait."""
        stream_id, lookup = self._stream_id, self._lookup
        # Before the lookup, so that every append after the lookup wakes this waiter.
        self.waiter.clear()
        page = lookup(stream_id, self.position, self.epoch, limit)
        if page is None:
            page = await self._load(stream_id, self.position, self.epoch, limit)
        if not (page.entries or page.ended or wait <= 0):
            on_wake = make_wake_callback(
                self, stream_id, lookup, limit, wait, write, wait_if_empty=True
            )
            await self.waiter.wait(wait, on_wake)
            in_memory = lookup(stream_id, self.position, self.epoch, limit)
            page = in_memory or await self._load(stream_id, self.position, self.epoch, limit)
        self.position += len(page.entries)
        self.epoch = page.epoch
        return page

    def close(self) -> None:
        """Stop waiting, and leave the waiters."""
        self.waiter.close()
        with self._lock:
            self._waiters.remove(self._stream_id, self)
