"""The retry budget of a stream: how often and how long it reconnects without progress. Pure.

* A stream reconnects up to `max_retries` times in a row without progress.
* A stream that has already begun also reconnects until `reconnect_for` seconds have passed since
  the first loss after the last progress, because a server may need that time to restart.
* A server that drains sends `retry:` and ends the response cleanly. Reconnecting then does not use
  a retry, but the number of drains in a row is limited too.
* The delays double with each loss or poll until there is progress. They are never shorter than what
  the server asks for.
"""

import random
from collections.abc import Callable

from ._clock import monotonic
from ._retry import Backoff

__all__ = ["RetryBudget"]

_MAX_DRAINS = 10


class RetryBudget:
    """Counts losses and computes the delay before the next attempt.

    Attributes:
        failures: the consecutive losses that count against `max_retries`.
        used: whether anything was counted since the last `refill`.
    """

    __slots__ = (
        "_backoff",
        "_begun",
        "_clock",
        "_delays",
        "_drains",
        "_first_loss",
        "_jitter",
        "_max_retries",
        "_reconnect_for",
        "failures",
        "used",
    )

    def __init__(
        self,
        backoff: Backoff,
        max_retries: int,
        *,
        reconnect_for: float = 0.0,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._backoff = backoff
        self._max_retries = max_retries
        self._reconnect_for = reconnect_for
        self._jitter = jitter
        self._clock = clock
        self._begun = False
        self.refill()

    @property
    def max_server_delay(self) -> float:
        """The longest delay that a server may ask for."""
        return self._backoff.max_server_delay

    def refill(self) -> None:
        """Reset all counters, because there was progress."""
        self.restore_retries()
        self._delays = 0  # since the last progress
        self._drains = 0
        self.used = False

    def restore_retries(self) -> None:
        """Allow all retries again although there was no progress; the delays continue to grow."""
        self._first_loss: float | None = None
        self.failures = 0

    def after_drain(self, server_delay: float | None) -> float | None:
        """Return the seconds to wait for a server that drains; None if it drained too often."""
        self.used = True
        self._drains += 1
        if self._max_retries == 0 or self._drains > _MAX_DRAINS:
            return None
        return self._backoff.retry_delay(1, server_delay, self._jitter)

    def after_loss(self, server_delay: float | None, *, begun: bool = True) -> float | None:
        """Count a loss; return the seconds to wait before the next attempt; None to give up."""
        self.used = True
        self.failures += 1
        self._delays += 1
        self._begun = begun
        now = self._clock()
        if self._first_loss is None:
            self._first_loss = now
        delay = self._backoff.retry_delay(self._delays, server_delay, self._jitter)
        if delay is None or self.failures <= self._max_retries:
            return delay
        left = self._reconnect_for - (now - self._first_loss)
        if not begun or left <= 0:
            return None
        return min(
            delay, max(left, server_delay or 0.0)
        )  # the last attempt is made when the time is up

    def before_poll(self) -> float:
        """Return the seconds to wait before polling; a poll does not use a retry."""
        self.used = True
        self._delays += 1
        return self._backoff.delay(self._delays, self._jitter)

    def describe(self) -> str:
        """Describe the next attempt for a log line."""
        if self.failures == 0:
            return "because the server is draining"
        if self.failures <= self._max_retries:
            more = "at least " if self._begun and self._reconnect_for else ""
            return f"attempt {self.failures} of {more}{self._max_retries}"
        return f"attempt {self.failures}, giving up after {self._reconnect_for:g} s"
