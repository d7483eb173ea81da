"""A reader of one stream, whichever process writes it."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from .._waiters import Waiter, make_wake_callback
from ..base import Follower, Page
from ._session import Session

__all__ = ["ValkeyFollower"]


class ValkeyFollower(Follower):
    """Reads recent entries from memory if this process writes the stream, otherwise with `load`."""

    __slots__ = ("_load", "_session", "_stream_id", "epoch", "position", "waiter")

    def __init__(
        self,
        session: Session,
        stream_id: UUID,
        after_seq: int,
        after_epoch: int,
        load: Callable[[UUID, int, int, int], Awaitable[Page]],
    ) -> None:
        self.position = after_seq
        self.epoch = after_epoch
        self.waiter = Waiter()
        self._session = session
        self._stream_id = stream_id
        self._load = load
        session.waiters.add(stream_id, self)

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return up to `limit` entries; if there are none, wait."""
        page = await self._next(limit, wait, write)
        self.position += len(page.entries)
        self.epoch = page.epoch
        return page

    async def _next(self, limit: int, wait: float, write: Callable[[bytes], bool] | None) -> Page:
        session, waiters = self._session, self._session.waiters
        deadline, wake_all_count = session.loop.time() + wait, waiters.wake_all_count
        woken = False
        lookup, id_ = session.owned.page, self._stream_id
        while True:
            # Before the lookup, so that every later announcement wakes this waiter.
            self.waiter.clear()
            page = lookup(id_, self.position, self.epoch, limit)
            # Woken without new entries in memory: they are in the store.
            if page is None or wait <= 0 or (woken and not page.entries):
                page = await self._load(id_, self.position, self.epoch, limit)
            left = deadline - session.loop.time()
            if page.entries or page.ended or left <= 0 or waiters.wake_all_count != wake_all_count:
                return page
            session.subscribe(id_)
            await self.waiter.wait(
                left,
                make_wake_callback(self, id_, lookup, limit, wait, write, wait_if_empty=False),
            )
            woken = True
            # No further read here, because the log may be about to stop.
            if waiters.wake_all_count != wake_all_count:
                return page

    def close(self) -> None:
        """Stop waiting, and leave the waiters."""
        self.waiter.close()
        self._session.waiters.remove(self._stream_id, self)
