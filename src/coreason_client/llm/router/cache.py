"""`ResponseCache`: answers to requests that were sent before, exactly the same.

The rules are in `_cached_answer.py`.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from ... import _ownership
from ..._clock import monotonic
from ...errors import ArgumentError
from .._argument_errors import is_number

__all__ = ["ABANDONED", "Flight", "ResponseCache"]

ABANDONED: Final = object()
"""The result of a flight whose caller has cancelled it."""


class Flight:
    """A request that equal calls wait for.

    Attributes:
        landed: what the call has stored, None if nothing, or `ABANDONED`.
        thread: the thread in which the call runs.
    """

    __slots__ = ("landed", "thread")

    def __init__(self) -> None:
        self.landed: Future[Any] = Future()
        self.landed.set_running_or_notify_cancel()  # one that waits cannot cancel it for others
        self.thread = threading.get_ident()


class ResponseCache:
    """Returns the answer to a request that was sent before, exactly the same, without sending it.

    The response then has `"cached": True` and costs nothing. Equal calls of `generate` at the same
    time are one request. In a client with a `ValkeyState` the answers are in Valkey, else in this
    process; clients that are given the same cache share it, but an answer is found only with the
    API key, the headers and the `budget_key` with which it was requested.

    Args:
        seconds: how long an answer may be used.
        max_entries: the number of answers in this process; the one that was not used for longest is
            dropped first. Valkey has its own limit, `maxmemory`.
        max_bytes: the size of all answers in this process.
        scope: a name whose callers share all answers, whatever their keys, headers and budget keys
            are; in Valkey also those of other caches with the same scope.

    Raises:
        ValueError: an argument is invalid.
    """

    def __init__(
        self,
        seconds: float = 3600.0,
        max_entries: int = 1000,
        max_bytes: int = 64 * 1024 * 1024,
        *,
        scope: str | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if not is_number(seconds) or not 0 < seconds < 1e9:
            raise ArgumentError("seconds", "must be a number greater than 0", seconds)
        for name, value in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if type(value) is not int or value < 1:
                raise ArgumentError(name, "must be a whole number, 1 or more", value)
        if scope is not None and not (type(scope) is str and scope):
            raise ArgumentError("scope", "must be a name, or None", scope)
        self.seconds = seconds
        self.scope = scope
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0
        self._flights: dict[str, Flight] = {}
        self._lock = threading.Lock()
        _ownership.register(self)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> bytes | None:
        """Return the answer of a key in this process, None if there is none."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry[0] <= self._clock():
                self._remove(key)
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: str, value: bytes) -> None:
        """Store an answer in this process, unless it is larger than the whole cache."""
        with self._lock:
            if key in self._entries:
                self._remove(key)
            if len(value) > self._max_bytes:
                return
            self._entries[key] = self._clock() + self.seconds, value
            self._bytes += len(value)
            while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
                self._remove(next(iter(self._entries)))

    def clear(self) -> None:
        """Remove all answers of this process."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def join(self, key: str) -> tuple[Flight, bool]:
        """Return the flight for a key, and True if the caller began it and must `land` it."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None:
                return flight, False
            flight = self._flights[key] = Flight()
            return flight, True

    def land(self, key: str, flight: Flight, value: Any) -> None:
        """End a flight: the calls that wait for it get the value."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]
        flight.landed.set_result(value)

    def after_fork(self) -> None:
        """Replace the lock, which the parent may hold, and forget the calls of the parent."""
        self._lock = threading.Lock()
        self._flights = {}

    def _remove(self, key: str) -> None:
        self._bytes -= len(self._entries.pop(key)[1])
