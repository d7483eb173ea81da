"""Limits on what runs in one iteration of the event loop.

The event loop runs everything that is ready before it polls its sockets again. If a hundred
requests arrived at once, it would check all of them before the first agent starts, and no running
stream would send anything meanwhile. If hundreds of agents wrote without a pause, each iteration
would take long, and a request needs many of them. Therefore a few requests begin, and a few agents
go on writing, in each iteration, in the order of arrival, and all other work runs in between.
"""

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["REQUESTS", "WRITERS", "Pace", "pace_of_writers"]

# Measured with 100 requests at once: with 8 the median first packet came 10 % later; with 2 it did
# not come earlier, and the additional iterations cost 3 to 10 % more CPU time.
REQUESTS: Final = 4
# Each writes up to `FLUSH_BYTES`, which takes about 0.3 ms with its readers.
WRITERS: Final = 8


class Pace:
    """Lets callers of `wait` go on, `each` of them in each iteration of the event loop."""

    __slots__ = ("_begun", "_each", "_loop", "_scheduled", "_waiting")

    def __init__(self, each: int) -> None:
        self._each = each
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = 0  # in this iteration
        self._scheduled = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Return when the caller may go on."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the previous loop has ended, and with it its requests
            self._loop, self._begun, self._scheduled = loop, 0, False
            self._waiting.clear()
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._next_iteration, loop)
        if self._begun < self._each and not self._waiting:
            self._begun += 1
            return
        future = loop.create_future()
        self._waiting.append(future)
        await future

    def _next_iteration(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < self._each:
            future = self._waiting.popleft()
            if not future.done():  # it may have been cancelled
                future.set_result(None)
                self._begun += 1
        self._scheduled = self._begun > 0
        if self._scheduled:
            loop.call_soon(self._next_iteration, loop)


_writers: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace_of_writers(loop: asyncio.AbstractEventLoop) -> Pace:
    """Return the pace of all agents that write on an event loop."""
    pace = _writers.get(loop)
    if pace is None:
        pace = _writers[loop] = Pace(WRITERS)
    return pace
