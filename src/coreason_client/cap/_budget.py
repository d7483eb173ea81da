"""The retry budget of a stream: how often and how long it reconnects without a new packet. Pure.

* `max_retries` reconnections in a row without a new packet.
* A stream that has begun is moreover not given up before `reconnect_for` seconds have passed since
  its first loss after the last new packet, so that it survives the restart of a server.
* A server that drains says `retry:` and ends the response in order. Reconnecting then costs
  nothing, but not for ever: a server that only ever drains is given up too.
"""

from collections.abc import Callable

from .._retry import Backoff

__all__ = ["DEFAULT_MAX_RETRIES", "DEFAULT_RECONNECT_FOR", "RetryBudget", "reconnect_seconds"]

DEFAULT_RECONNECT_FOR = 30.0
_MAX_DRAINS = 10


class _Default(int):
    """An int that is known to be the default: a caller's own 3 means exactly 3 reconnections."""


DEFAULT_MAX_RETRIES = _Default(3)


def reconnect_seconds(max_retries: int, reconnect_for: float | None) -> float:
    """Return how long a stream that has begun keeps reconnecting, whatever `max_retries` says.

    A caller who passes `max_retries` and no `reconnect_for` gets exactly that many.
    """
    if reconnect_for is not None:
        return reconnect_for
    return DEFAULT_RECONNECT_FOR if isinstance(max_retries, _Default) else 0.0


class RetryBudget:
    """Counts losses and decides how long to wait for the next attempt."""

    def __init__(
        self,
        max_retries: int,
        reconnect_for: float,
        backoff: Backoff,
        jitter: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._max_retries = max_retries
        self._reconnect_for = reconnect_for
        self._backoff = backoff
        self._jitter = jitter
        self._clock = clock
        self._first_loss: float | None = None
        self._drains = 0
        self.failures = 0

    def refill(self) -> None:
        """Start anew, because a new packet has arrived."""
        self._first_loss = None
        self._drains = 0
        self.failures = 0

    def after_drain(self, server_delay: float | None) -> float | None:
        """Return the seconds to wait for a server that drains, None if it drained too often."""
        self._drains += 1
        if self._max_retries == 0 or self._drains > _MAX_DRAINS:
            return None
        return self._backoff.retry_delay(1, server_delay, self._jitter)

    def after_loss(self, server_delay: float | None, *, begun: bool) -> float | None:
        """Count a loss; return the seconds to wait before the next attempt, None to give up."""
        self.failures += 1
        now = self._clock()
        if self._first_loss is None:
            self._first_loss = now
        delay = self._backoff.retry_delay(self.failures, server_delay, self._jitter)
        if delay is None or self.failures <= self._max_retries:
            return delay
        left = self._reconnect_for - (now - self._first_loss)
        if not begun or left <= 0:
            return None
        return min(delay, max(left, server_delay or 0.0))  # the last attempt is at the very end

    def describe(self) -> str:
        """Return the number of the coming attempt in words."""
        if self.failures == 0:
            return "because the server is draining"
        if self.failures <= self._max_retries:
            return f"attempt {self.failures} of {self._max_retries}"
        return f"attempt {self.failures}, giving up after {self._reconnect_for:g} s"
