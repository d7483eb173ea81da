"""How a reader that waits is woken: one cheap call for each append, no timer for each page."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import TypeAlias
from uuid import UUID

from ._rules import may_have_more
from .base import Follower, Page

__all__ = ["Waiter", "Waiters", "WaitingFollower"]

Look: TypeAlias = Callable[[UUID, int, int], Page | None]
Load: TypeAlias = Callable[[UUID, int, int], Awaitable[Page]]


class Waiter:
    """Somebody who waits, again and again, on one event loop. It is woken from any thread.

    A wake that comes while nobody waits counts for the next wait, unless it is cleared before.
    """

    __slots__ = ("_called", "_deadline", "_future", "_on_wake", "_timer", "_woken", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self._on_wake: Callable[[], float] | None = None
        self._woken = False
        self._called = False  # to look what it was woken for
        # One timer for many waits: it looks at the deadline when it fires, and most deadlines are
        # moved long before. A timer for each page was a tenth of what a packet cost.
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    def clear(self) -> None:
        """Forget a wake: whatever it was for will be looked at now."""
        self._woken = False

    async def wait(self, seconds: float, on_wake: Callable[[], float] | None = None) -> None:
        """Wait until woken or until the time is over, whichever comes first.

        `on_wake` is called when woken; it returns for how many seconds to wait on, 0 to end.
        """
        future = self._future = self.loop.create_future()
        self._on_wake = on_wake
        try:
            if not self._woken:  # looked at after the future is there: `wake` sees it, or we do
                self._set_deadline(self.loop.time() + seconds)
                await future
        finally:
            self._future = self._on_wake = None

    def wake(self, here: asyncio.AbstractEventLoop | None, *, nudge: bool = False) -> None:
        """Wake it; `here` is the event loop of the calling thread. A nudge ends the wait."""
        self._woken = True
        if self._future is None or (self._called and not nudge):
            return
        self._called = True
        release = self._end if nudge else self._look
        # Not at once: the caller holds the lock of its log.
        if self.loop is here:
            self.loop.call_soon(release)
        else:
            with suppress(RuntimeError):  # the loop is closed, and its waiters died with it
                self.loop.call_soon_threadsafe(release)

    def close(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._called = False
        if self._future is None:
            return
        if self._on_wake is not None:
            self._woken = False
            try:
                seconds = self._on_wake()
            except Exception:  # noqa: BLE001 - whoever waits will meet it, and can handle it
                seconds = 0.0
            if seconds:
                self._deadline = self.loop.time() + seconds
                return
        self._end()

    def _end(self) -> None:
        self._called = False
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def _set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is not None and self._timer.when() > deadline:
            self.close()
        if self._timer is None:
            self._timer = self.loop.call_at(deadline, self._look_at_the_time)

    def _look_at_the_time(self) -> None:
        self._timer = None
        if self._future is None:
            return  # the next wait sets a timer
        if self.loop.time() >= self._deadline:
            self._end()
        else:
            self._timer = self.loop.call_at(self._deadline, self._look_at_the_time)


class Waiters:
    """Those who wait for more of a stream.

    It does not lock: the log calls it under its own lock, so that nothing can be appended between
    a look at the log and the start of the wait. Waiters may live on different event loops, each in
    its own thread.
    """

    __slots__ = ("_by_stream",)

    def __init__(self) -> None:
        self._by_stream: dict[UUID, set[Waiter]] = {}

    def enter(self, stream_id: UUID, waiter: Waiter) -> None:
        """Be woken from now on; `leave` must follow."""
        self._by_stream.setdefault(stream_id, set()).add(waiter)

    def leave(self, stream_id: UUID, waiter: Waiter) -> None:
        """Be woken no more."""
        group = self._by_stream.get(stream_id)
        if group is not None:
            group.discard(waiter)
            if not group:
                del self._by_stream[stream_id]

    def wake(self, stream_id: UUID) -> None:
        """Wake those who wait for this stream."""
        if group := self._by_stream.get(stream_id):
            here = _running_loop()
            for waiter in group:
                waiter.wake(here)

    def wake_all(self) -> None:
        """End all waits."""
        here = _running_loop()
        for group in self._by_stream.values():
            for waiter in group:
                waiter.wake(here, nudge=True)


class WaitingFollower(Follower):
    """A reader of a log that keeps its waiters itself.

    `look` returns a page that is at hand, under the lock, or None; `load` gets it from the store.
    """

    __slots__ = ("_load", "_lock", "_look", "_stream_id", "_waiter", "_waiters", "position")

    def __init__(
        self,
        stream_id: UUID,
        after_seq: int,
        lock: AbstractContextManager[bool],
        waiters: Waiters,
        look: Look,
        load: Load,
    ) -> None:
        self.position = after_seq
        self._stream_id = stream_id
        self._lock = lock
        self._waiters = waiters
        self._look = look
        self._load = load
        self._waiter = Waiter()
        with lock:
            waiters.enter(stream_id, self._waiter)

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        """Return up to `limit` entries; if there are none, wait."""
        with self._lock:
            # Before the look at the store: what is appended from here on wakes this waiter.
            self._waiter.clear()
            page = self._look(self._stream_id, self.position, limit)
        if page is None:
            page = await self._load(self._stream_id, self.position, limit)
        if not (page.entries or page.ended or wait <= 0):
            await self._waiter.wait(wait, self._writing(limit, wait, write))
            with self._lock:
                again = self._look(self._stream_id, self.position, limit)
            page = again or await self._load(self._stream_id, self.position, limit)
        self.position += len(page.entries)
        return page

    def _writing(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None
    ) -> Callable[[], float] | None:
        """Return what gives live entries to `write`, without a turn of the reader's task."""
        if write is None:
            return None

        def write_on() -> float:
            with self._lock:
                page = self._look(self._stream_id, self.position, limit)
            # The end, and all that is not at hand, is for the reader's task.
            if page is None or page.ended:
                return 0.0
            if not page.entries:
                return wait
            body, count = b"".join(page.entries), len(page.entries)
            if not write(body):
                return 0.0
            self.position += count
            return 0.0 if may_have_more(body, count, limit) else wait

        return write_on

    def close(self) -> None:
        """Wait no more."""
        self._waiter.close()
        with self._lock:
            self._waiters.leave(self._stream_id, self._waiter)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
