"""The base of the logs in this package: a short path for the many small appends of live streams."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from threading import Lock
from typing import Protocol, TypeAlias
from uuid import UUID

from ._rules import may_have_more
from .base import DurableLog, Follower, Notes, Page

# Readers that wait for entries: an append wakes them with one cheap call, without a timer each.

PageLookup: TypeAlias = Callable[[UUID, int, int, int], Page | None]
"""Called with stream_id, after_seq, after_epoch and limit; returns a page from memory, or None."""


class Waiter:
    """An object to wait on, repeatedly, in one event loop. It may be woken from any thread.

    A wake before a wait ends that wait at once, unless `clear` is called in between.
    """

    __slots__ = ("_deadline", "_future", "_on_wake", "_scheduled", "_timer", "_woken", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self._on_wake: Callable[[], float] | None = None
        self._woken = False
        self._scheduled = False  # a callback of `wake` is scheduled
        # One timer for many waits. When it fires it compares with the deadline, which has usually
        # been moved by then. A timer for each page was a tenth of the cost of a packet.
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    def clear(self) -> None:
        """Forget an earlier wake; call it before looking for entries."""
        self._woken = False

    async def wait(self, seconds: float, on_wake: Callable[[], float] | None = None) -> None:
        """Wait until woken, at most so many seconds.

        `on_wake` is called on each wake; it returns how many seconds to continue waiting, 0 to
        end the wait.
        """
        future = self._future = self.loop.create_future()
        self._on_wake = on_wake
        try:
            if not self._woken:  # checked after the future exists, so that no wake is lost
                self._set_deadline(self.loop.time() + seconds)
                await future
        finally:
            self._future = self._on_wake = None

    def wake(
        self, running_loop: asyncio.AbstractEventLoop | None, *, end_wait: bool = False
    ) -> None:
        """Wake it; `running_loop` is the event loop of the calling thread.

        With `end_wait` the wait ends without a call of `on_wake`.
        """
        self._woken = True
        if self._future is None or (self._scheduled and not end_wait):
            return
        self._scheduled = True
        callback = self._end if end_wait else self._continue_or_end
        # Scheduled, not called: the caller holds the lock of its log.
        if self.loop is running_loop:
            self.loop.call_soon(callback)
        else:
            with suppress(RuntimeError):  # the loop is closed, so nothing waits there
                self.loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _continue_or_end(self) -> None:
        self._scheduled = False
        if self._future is None:
            return
        if self._on_wake is not None:
            self._woken = False
            try:
                seconds = self._on_wake()
            except Exception:  # noqa: BLE001 - the waiting reader repeats the call and gets the error
                seconds = 0.0
            if seconds:
                self._deadline = self.loop.time() + seconds
                return
        self._end()

    def _end(self) -> None:
        self._scheduled = False
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def _set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is not None and self._timer.when() > deadline:
            self.close()
        if self._timer is None:
            self._timer = self.loop.call_at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._future is None:
            return  # the next wait sets a timer
        if self.loop.time() >= self._deadline:
            self._end()
        else:
            self._timer = self.loop.call_at(self._deadline, self._check_deadline)


class Waiting(Protocol):
    """Somebody who waits for entries: the waiter, and the number of the last known entry."""

    waiter: Waiter
    position: int


class Reader(Waiting, Protocol):
    """A reader of a stream; `epoch` is that of the last entry that it has read."""

    epoch: int


class Waiters:
    """The readers to wake, by stream; `wake_all_count` is the number of `wake_all` calls.

    It has no lock. A log with readers in several threads must call it under its own lock.
    """

    __slots__ = ("_by_stream", "wake_all_count")

    def __init__(self) -> None:
        self.wake_all_count = 0
        self._by_stream: dict[UUID, set[Waiting]] = {}

    def __contains__(self, stream_id: UUID) -> bool:
        return stream_id in self._by_stream

    def add(self, stream_id: UUID, reader: Waiting) -> None:
        """Add a reader; call `remove` later."""
        self._by_stream.setdefault(stream_id, set()).add(reader)

    def remove(self, stream_id: UUID, reader: Waiting) -> None:
        """Remove a reader."""
        group = self._by_stream.get(stream_id)
        if group is not None:
            group.discard(reader)
            if not group:
                del self._by_stream[stream_id]

    def wake(self, stream_id: UUID) -> None:
        """Wake the readers of a stream."""
        if group := self._by_stream.get(stream_id):
            running_loop = _running_loop()
            for reader in group:
                reader.waiter.wake(running_loop)

    def wake_all(self) -> None:
        """End the waits of all readers."""
        self.wake_all_count += 1
        running_loop = _running_loop()
        for group in self._by_stream.values():
            for reader in group:
                reader.waiter.wake(running_loop, end_wait=True)

    def positions(self) -> list[tuple[UUID, int]]:
        """Return the streams with readers, each with the lowest position of its readers."""
        return [
            (stream_id, min(reader.position for reader in group))
            for stream_id, group in self._by_stream.items()
        ]


def make_wake_callback(
    reader: Reader,
    stream_id: UUID,
    lookup: PageLookup,
    limit: int,
    wait: float,
    write: Callable[[bytes], bool] | None,
    *,
    wait_if_empty: bool,
) -> Callable[[], float] | None:
    """Return an `on_wake` callback that passes new entries to `write`, or None without `write`.

    A live packet then does not have to resume the reader's task. In all other cases the callback
    ends the wait, and the reader continues: the stream has ended, the entries are not in memory,
    more entries may follow a full page, or `write` returned False. If there are no new entries,
    the wait continues if `wait_if_empty` is True; if it is False the wait ends, because new entries
    may be in the store.
    """
    if write is None:
        return None
    seconds_if_empty = wait if wait_if_empty else 0.0

    def on_wake() -> float:
        page = lookup(stream_id, reader.position, reader.epoch, limit)
        if page is None or page.ended:
            return 0.0
        if not page.entries:
            return seconds_if_empty
        body, count = b"".join(page.entries), len(page.entries)
        if not write(body):
            return 0.0
        reader.position += count
        reader.epoch = page.epoch
        return 0.0 if may_have_more(body, count, limit) else wait

    return on_wake


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # this thread has no event loop
        return None


# Those that wait for changes of tasks, on any event loop of this process.

_Change: TypeAlias = "asyncio.Future[None]"


class TaskWaiters:
    """The waiters by task."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[UUID, set[_Change]] = {}

    @contextmanager
    def registered(self, task_id: UUID) -> Iterator[_Change]:
        """Register a waiter. The caller checks the task afterwards, so it misses no change."""
        change: _Change = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.setdefault(task_id, set()).add(change)
        try:
            yield change
        finally:
            self._forget(task_id, change)

    async def wait_for(self, change: _Change, seconds: float) -> None:
        """Wait for a change, at most for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await change

    def wake(self, task_id: UUID) -> None:
        """Wake all that wait for a task. May be called in any thread."""
        with self._lock:
            woken = list(self._waiting.get(task_id, ()))
        for change in woken:
            with suppress(RuntimeError):  # its event loop is closed
                change.get_loop().call_soon_threadsafe(_settle, change)

    def _forget(self, task_id: UUID, change: _Change) -> None:
        with self._lock:
            waiting = self._waiting[task_id]
            waiting.discard(change)
            if not waiting:
                del self._waiting[task_id]


def _settle(change: _Change) -> None:
    if not change.done():
        change.set_result(None)


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
