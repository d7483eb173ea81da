"""How a waiting read is woken: one future per waiting read, one cheap call per append."""

import asyncio
from collections.abc import Iterable
from uuid import UUID

__all__ = ["Waiters"]

Waiter = asyncio.Future[None]


class Waiters:
    """Those who wait for more of a stream.

    `enter` and `wake` do not lock: the log calls them under its own lock, so that nothing can be
    appended between a look at the log and the start of the wait. Waiters may live on different
    event loops, each in its own thread.
    """

    __slots__ = ("_by_stream",)

    def __init__(self) -> None:
        self._by_stream: dict[UUID, set[Waiter]] = {}

    def enter(self, stream_id: UUID) -> Waiter:
        """Start to wait; `leave` must follow."""
        waiter = asyncio.get_running_loop().create_future()
        self._by_stream.setdefault(stream_id, set()).add(waiter)
        return waiter

    def leave(self, stream_id: UUID, waiter: Waiter) -> None:
        """Wait no more."""
        group = self._by_stream.get(stream_id)
        if group is not None:
            group.discard(waiter)
            if not group:
                del self._by_stream[stream_id]

    def wake(self, stream_id: UUID) -> None:
        """Wake those who wait for this stream."""
        group = self._by_stream.pop(stream_id, None)
        if group:
            _release_all(group)

    def wake_all(self) -> None:
        """Wake everybody."""
        groups, self._by_stream = self._by_stream, {}
        for group in groups.values():
            _release_all(group)


async def wait(waiter: Waiter, seconds: float) -> None:
    """Wait until woken or until the time is over, whichever comes first."""
    timer = waiter.get_loop().call_later(seconds, _release, waiter)
    try:
        await waiter
    finally:
        timer.cancel()


def _release_all(group: Iterable[Waiter]) -> None:
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    for waiter in group:
        loop = waiter.get_loop()
        if loop is here:
            _release(waiter)
        elif not loop.is_closed():  # the waiters of a dead loop died with it
            loop.call_soon_threadsafe(_release, waiter)


def _release(waiter: Waiter) -> None:
    if not waiter.done():
        waiter.set_result(None)
