"""A reader of one stream, wherever the stream is written."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from .._rules import may_have_more
from .._waiters import Waiter
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
        session.watch.enter(stream_id, self)

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return up to `limit` entries; if there are none, wait."""
        page = await self._next(limit, wait, write)
        self.position += len(page.entries)
        return page

    async def _next(self, limit: int, wait: float, write: Callable[[bytes], bool] | None) -> Page:
        session, watch = self._session, self._session.watch
        deadline, nudges = session.loop.time() + wait, watch.nudges
        woken = False
        while True:
            # Before the look at the store: what is announced from here on wakes this waiter.
            self.waiter.clear()
            page = session.owned.page(self._stream_id, self.position, limit)
            # Whoever was woken and finds nothing here was woken for something in the store.
            if page is None or wait <= 0 or (woken and not page.entries):
                page = await self._load(self._stream_id, self.position, limit)
            left = deadline - session.loop.time()
            if page.entries or page.ended or left <= 0 or watch.nudges != nudges:
                return page
            session.listen(self._stream_id)
            await self.waiter.wait(left, self._writing(limit, wait, write))
            woken = True
            if watch.nudges != nudges:  # without another look: the log may be about to stop
                return page

    def _writing(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None
    ) -> Callable[[], float] | None:
        """Return what gives live entries to `write`, without a turn of the reader's task."""
        if write is None:
            return None

        def write_on() -> float:
            page = self._session.owned.page(self._stream_id, self.position, limit)
            if page is None or not page.entries:
                return 0.0
            body, count = b"".join(page.entries), len(page.entries)
            if not write(body):
                return 0.0
            self.position += count
            return 0.0 if may_have_more(body, count, limit) else wait

        return write_on

    def close(self) -> None:
        """Wait no more."""
        self.waiter.close()
        self._session.watch.leave(self._stream_id, self)
