"""Time limits of calls on one event loop; limits that end in the same second share a timer.

aiohttp starts a timer for each request and cancels it at the end, which is about a twelfth of the
cost of a call. A time limit works like `asyncio.timeout`: it cancels the task that waits, and the
code that began it turns the cancellation into a timeout.
"""

import asyncio
from math import ceil

__all__ = ["NO_LIMIT", "TimeLimit", "TimeLimits"]

_EXACT_SECONDS = 5.0  # a longer limit may be up to a second longer, as in aiohttp


class TimeLimit:
    """The time limit of one task, which must be waiting whenever the limit may be reached."""

    __slots__ = ("_before", "_group", "_reached", "_task")

    def __init__(self, task: "asyncio.Task[object] | None", group: "set[TimeLimit]") -> None:
        self._task = task
        self._before = 0 if task is None else task.cancelling()
        self._group = group
        self._reached = False
        group.add(self)

    def reach(self) -> None:
        """Cancel the task, because its time is over."""
        self._reached = True
        if self._task is not None:
            self._task.cancel()

    def end(self) -> bool:
        """End the limit; return True if it was reached and nothing else cancelled the task."""
        self._group.discard(self)
        if not self._reached or self._task is None:
            return False
        self._reached = False
        return self._task.uncancel() <= self._before


NO_LIMIT = TimeLimit(None, set())
"""A limit that is never reached."""


class TimeLimits:
    """Begins the time limits of the tasks of the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._groups: dict[int, set[TimeLimit]] = {}  # by the second in which they end

    def begin(self, seconds: float | None) -> TimeLimit:
        """Begin the limit of the current task; None is no limit."""
        if seconds is None:
            return NO_LIMIT
        task, now = asyncio.current_task(self._loop), self._loop.time()
        if seconds <= _EXACT_SECONDS:
            group: set[TimeLimit] = set()
            self._loop.call_at(now + seconds, _reach_all, group)
            return TimeLimit(task, group)
        second = ceil(now + seconds)
        if (known := self._groups.get(second)) is None:
            known = self._groups[second] = set()
            self._loop.call_at(second, self._reach_group, second)
        return TimeLimit(task, known)

    def _reach_group(self, second: int) -> None:
        _reach_all(self._groups.pop(second))


def _reach_all(limits: set[TimeLimit]) -> None:
    for limit in tuple(limits):
        limit.reach()
