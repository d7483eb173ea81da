"""`virtual_clock`: the waits of all clients take no time, and are recorded."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .. import _clock
from ..errors import ArgumentError


class VirtualClock:
    """The waits that were skipped, and a method that lets time pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: list[float] = []

    def __repr__(self) -> str:
        return f"<VirtualClock: {len(self.waits)} waits, {self.waited:g} s>"

    @property
    def waits(self) -> list[float]:
        """The waits that were skipped, in seconds and in order."""
        with self._lock:
            return list(self._waits)

    @property
    def waited(self) -> float:
        """The sum of all waits in seconds."""
        return sum(self.waits)

    def advance(self, seconds: float) -> None:
        """Let time pass for all clients: deadlines, tokens and cached cards become older.

        Raises:
            ArgumentError: `seconds` is negative.
        """
        if seconds < 0:
            raise ArgumentError("seconds", "must not be negative", seconds)
        _clock.skip(seconds)

    def _record(self, seconds: float) -> None:
        with self._lock:
            self._waits.append(seconds)


@contextmanager
def virtual_clock() -> Iterator[VirtualClock]:
    """Skip the waits of all clients while the block runs, in every thread and event loop.

    It covers the delays between attempts (also those that a server asks for), the delays between
    polls and the waits for rate limits, and moves the clock of deadlines and retry budgets forward
    by each wait. It does not cover timeouts of sockets, servers (heartbeats, the delays of a fake
    agent), tools, and `sleep` in your own code.
    """
    clock = VirtualClock()
    end = _clock.record_waits(clock._record)
    try:
        yield clock
    finally:
        end()
