"""A reader of one stream, wherever the stream is written."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from .._waiters import Waiter, write_when_woken
from ..base import Follower, Page
from ._session import Session

__all__ = ["ValkeyFollower"]


class ValkeyFollower(Follower):
    """Reads from the entries that are kept here if the stream is written here, else by `load`."""

    __slots__ = ("_load", "_session", "_stream_id", "position", "waiter")

    def __init__(
        self,
        session: Session,
        stream_id: UUID,
        after_seq: int,
        load: Callable[[UUID, int, int], Awaitable[Page]],
    ) -> None:
        self.position = after_seq
        self.waiter = Waiter()
        self._session = session
        self._stream_id = stream_id
        self._load = load
        session.waiters.enter(stream_id, self)

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return up to `limit` entries; if there are none, wait."""
        page = await self._next(limit, wait, write)
        self.position += len(page.entries)
        return page

    async def _next(self, limit: int, wait: float, write: Callable[[bytes], bool] | None) -> Page:
        session, waiters = self._session, self._session.waiters
        deadline, nudges = session.loop.time() + wait, waiters.nudges
        woken = False
        look, id_ = session.owned.page, self._stream_id
        while True:
            # Before the look at the store: what is announced from here on wakes this waiter.
            self.waiter.clear()
            page = look(id_, self.position, limit)
            # Whoever was woken and finds nothing here was woken for something in the store.
            if page is None or wait <= 0 or (woken and not page.entries):
                page = await self._load(id_, self.position, limit)
            left = deadline - session.loop.time()
            if page.entries or page.ended or left <= 0 or waiters.nudges != nudges:
                return page
            session.listen(id_)
            await self.waiter.wait(
                left,
                write_when_woken(self, id_, look, limit, wait, write, wait_if_nothing=False),
            )
            woken = True
            if waiters.nudges != nudges:  # without another look: the log may be about to stop
                return page

    def close(self) -> None:
        """Wait no more."""
        self.waiter.close()
        self._session.waiters.leave(self._stream_id, self)
