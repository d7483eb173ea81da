"""The streams that this process writes, and the readers of all streams."""

import asyncio
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from .._live import Waiter, Waiters, make_wake_callback
from .._recent_entries import RecentEntries
from ..base import Follower, Page
from ..tasks import TaskRecord

_TASK_POLL = 5.0  # seconds between two looks at a task, in case that an announcement was lost
_REMEMBER_SECONDS = 60.0  # after the end of a lease
_RECENT_BYTES = 16 * 1024 * 1024  # of the latest entries of all streams together


class Ownership:
    """The streams that this event loop writes, each until the end of its lease.

    During the lease no other process can append to a stream, so its readers in this process are
    woken directly, and read the latest entries without asking the store. After the end of the lease
    another process may have claimed the stream, so ownership ends with it.
    """

    __slots__ = ("_clock", "_recent", "_until")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[UUID, float] = {}
        self._recent = RecentEntries(_RECENT_BYTES)

    def now(self) -> float:
        """Return the time at which a lease that is requested now starts."""
        return self._clock()

    def own(self, stream_id: UUID, until: float) -> None:
        """Record a lease."""
        self._until[stream_id] = until

    def own_new(self, stream_id: UUID, until: float) -> None:
        """Record the lease of a new stream; its first reader need not ask the store for entries."""
        self.own(stream_id, until)
        self.add(stream_id, 1, 1, ())

    def extend(self, stream_id: UUID, until: float) -> bool:
        """Record a renewal; return False if the stream is not written here.

        It may be called from any thread.
        """
        known = stream_id in self._until
        if known:
            self._until[stream_id] = until
        return known

    def disown(self, stream_id: UUID) -> bool:
        """Forget a stream; return True if it was written here."""
        self._recent.drop(stream_id)
        return self._until.pop(stream_id, None) is not None

    def owns(self, stream_id: UUID) -> bool:
        """Return True if no other process can write the stream now."""
        until = self._until.get(stream_id)
        return until is not None and until > self._clock()

    def add(self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]) -> None:
        """Cache entries that the store has accepted, if the stream is written here."""
        if stream_id in self._until:
            self._recent.add(stream_id, epoch, first_seq, entries, ended=False)

    def drop(self, stream_id: UUID) -> None:
        """Drop the cached entries of a stream."""
        self._recent.drop(stream_id)

    def page(self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int) -> Page | None:
        """Return the entries that follow a position, None if the store must be asked."""
        if not self.owns(stream_id):
            return None
        return self._recent.page(stream_id, after_seq, after_epoch, limit)

    def forget_old(self) -> None:
        """Forget the streams whose leases ran out a while ago.

        Not at once: a lease that was not claimed can still be renewed, and then no other process
        has appended to the stream.
        """
        oldest = self._clock() - _REMEMBER_SECONDS
        for stream_id in [id_ for id_, until in list(self._until.items()) if until <= oldest]:
            self.disown(stream_id)


class StreamSession(ABC):
    """The part of a log that belongs to one event loop: its readers, and the streams it writes."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.owners: set[str] = set()
        self.waiters = Waiters()
        self.owned = Ownership()
        self._starting = asyncio.Lock()  # held by `start`

    @abstractmethod
    async def start(self) -> None:
        """Connect, and check that the store allows everything that the log needs.

        Raises:
            LogUnavailable: the store cannot be reached, or does not allow something.
        """

    async def started(self) -> None:
        """Wait until a running `start` has finished."""
        async with self._starting:
            pass

    @abstractmethod
    async def close(self) -> None:
        """Close all connections and end the waiting reads."""

    @abstractmethod
    def subscribe(self, stream_id: UUID) -> None:
        """Wake the readers of a stream from now on, unless this event loop writes it."""

    def disown(self, stream_id: UUID) -> None:
        """Record that another process may write a stream from now on."""
        if self.owned.disown(stream_id):
            self.waiters.wake(stream_id)  # its readers must subscribe now

    def add_entries(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> None:
        """Cache entries that the store has accepted, and wake the readers of their stream."""
        self.owned.add(stream_id, epoch, first_seq, entries)
        self.waiters.wake(stream_id)

    def drop_entries(self, stream_id: UUID) -> None:
        """Drop the cached entries of a stream; its readers are woken and ask the store."""
        self.owned.drop(stream_id)
        self.waiters.wake(stream_id)


class _TaskWatcher:
    """Waits for the announcement of a task, whose id is that of its first stream."""

    position = sys.maxsize  # it reads no entries

    def __init__(self) -> None:
        self.waiter = Waiter()


async def wait_for_task(
    session: StreamSession,
    subscribe: Callable[[UUID], None],
    get: Callable[[UUID], Awaitable[TaskRecord | None]],
    record: TaskRecord,
    seconds: float,
) -> None:
    """Wait until a task is another one than this record, at most for so long.

    It also ends when all readers of the session are woken. `subscribe` begins the announcements of
    the task, also if this event loop writes its first stream.
    """
    task_id, waiters, reader = record.task_id, session.waiters, _TaskWatcher()
    until, wake_all_count = session.loop.time() + seconds, waiters.wake_all_count
    waiters.add(task_id, reader)
    subscribe(task_id)
    try:
        while (left := until - session.loop.time()) > 0:
            reader.waiter.clear()  # before the look, so that a change after it is noticed
            stored = await get(task_id)
            if stored is None or stored.revision != record.revision:
                return
            await reader.waiter.wait(min(_TASK_POLL, left))
            if waiters.wake_all_count != wake_all_count:
                return
    finally:
        waiters.remove(task_id, reader)
        reader.waiter.close()


class SharedFollower(Follower):
    """Reads recent entries from memory if this process writes the stream, otherwise with `load`."""

    __slots__ = ("_load", "_session", "_stream_id", "epoch", "position", "waiter")

    def __init__(
        self,
        session: StreamSession,
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
