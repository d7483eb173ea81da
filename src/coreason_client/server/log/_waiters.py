"""How a reader that waits is woken: one cheap call for each append, no timer for each page."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias
from uuid import UUID

from ._rules import may_have_more
from .base import Page

__all__ = ["Look", "Reader", "Waiter", "Waiters", "write_when_woken"]

Look: TypeAlias = Callable[[UUID, int, int], Page | None]
"""Returns the page of a stream after a position if it is at hand, up to a number of entries."""


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


class Reader(Protocol):
    """Somebody who reads a stream: its waiter, and the position that it has read up to."""

    waiter: Waiter
    position: int


class Waiters:
    """The readers that are woken, by stream; `nudges` counts how often all waits were ended.

    It does not lock. A log whose readers are on several event loops, each in its own thread, calls
    it under a lock of its own.
    """

    __slots__ = ("_by_stream", "nudges")

    def __init__(self) -> None:
        self.nudges = 0
        self._by_stream: dict[UUID, set[Reader]] = {}

    def __contains__(self, stream_id: UUID) -> bool:
        return stream_id in self._by_stream

    def enter(self, stream_id: UUID, reader: Reader) -> None:
        """Wake a reader from now on; `leave` must follow."""
        self._by_stream.setdefault(stream_id, set()).add(reader)

    def leave(self, stream_id: UUID, reader: Reader) -> None:
        """Wake a reader no more."""
        group = self._by_stream.get(stream_id)
        if group is not None:
            group.discard(reader)
            if not group:
                del self._by_stream[stream_id]

    def wake(self, stream_id: UUID) -> None:
        """Wake the readers of a stream."""
        if group := self._by_stream.get(stream_id):
            try:
                here = asyncio.get_running_loop()
            except RuntimeError:  # a thread without one
                here = None
            for reader in group:
                reader.waiter.wake(here)

    def wake_all(self) -> None:
        """End all waits."""
        self.nudges += 1
        here = _running_loop()
        for group in self._by_stream.values():
            for reader in group:
                reader.waiter.wake(here, nudge=True)

    def positions(self) -> list[tuple[UUID, int]]:
        """Return the streams with readers, each with the lowest of their positions."""
        return [
            (stream_id, min(reader.position for reader in group))
            for stream_id, group in self._by_stream.items()
        ]


def write_when_woken(
    reader: Reader,
    stream_id: UUID,
    look: Look,
    limit: int,
    wait: float,
    write: Callable[[bytes], bool] | None,
    *,
    wait_if_nothing: bool,
) -> Callable[[], float] | None:
    """Return what a waiter calls when it is woken: it passes live entries on to `write`.

    So a live packet needs no turn of the reader's task. The end of the stream, entries that are not
    at hand, those behind a full page and those that `write` refuses are left to the reader: its
    wait ends. Whether it also ends if there is nothing new depends on where else entries may be.
    """
    if write is None:
        return None
    if_nothing = wait if wait_if_nothing else 0.0

    def write_on() -> float:
        page = look(stream_id, reader.position, limit)
        if page is None or page.ended:
            return 0.0
        if not page.entries:
            return if_nothing
        body, count = b"".join(page.entries), len(page.entries)
        if not write(body):
            return 0.0
        reader.position += count
        return 0.0 if may_have_more(body, count, limit) else wait

    return write_on


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
