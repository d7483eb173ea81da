"""Delays before a retry: the only back-off arithmetic, and reading `Retry-After`. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC

RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Transient statuses: the same request may succeed on a retry."""

# ASCII only, because `float` also accepts 1_000, +7, nan, inf and Arabic digits.
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from `first` to `longest` seconds, with jitter.

    The jitter changes a delay by up to this part of it. By default it subtracts at most half, so no
    delay is shorter than the one before it while they double. A server may ask for a longer delay,
    up to `max_server_delay` seconds.
    """

    first: float = 0.5
    longest: float = 30.0
    max_server_delay: float = 60.0
    spread: float = -0.5

    def delay(self, failures: int, jitter: Callable[[], float]) -> float:
        """Return the seconds to wait after this number of consecutive failures.

        `jitter` returns numbers from 0 to 1.
        """
        doublings = min(failures - 1, 64)  # more would overflow the float
        return min(self.first * 2.0**doublings, self.longest) * (1 + self.spread * jitter())

    def retry_delay(
        self, failures: int, server_delay: float | None, jitter: Callable[[], float]
    ) -> float | None:
        """Return the seconds to wait before a retry, at least what the server asks for.

        None means to give up, because the server asks for more than `max_server_delay`.
        """
        delay = self.delay(failures, jitter)
        if server_delay is None:
            return delay
        return max(delay, server_delay) if server_delay <= self.max_server_delay else None


def retry_after(headers: Mapping[str, str], now: Callable[[], float]) -> float | None:
    """Return the seconds that a response asks to wait; None if it contains no valid delay.

    Supports `retry-after-ms`, and `Retry-After` in seconds or as an HTTP date. A date is measured
    from the response's own `Date`, because the clocks may differ; without that header it is
    measured from `now`, which returns the seconds since 1970.
    """
    milliseconds = parse_seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    number = parse_seconds(value)
    if number is not None:
        return number
    retry_at = _http_date(value)
    if retry_at is None:
        return None
    sent_at = _http_date(headers.get("date", ""))
    wait = retry_at - (now() if sent_at is None else sent_at)
    return wait if wait >= 0 else None


def parse_seconds(value: object) -> float | None:
    """Parse a number of seconds from the wire; None if it is invalid or negative."""
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value.strip(" \t")) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if 0 <= value < 10**12 else None  # false for NaN too
    return None


def _http_date(value: str) -> float | None:
    from email.utils import parsedate_to_datetime  # rarely needed and slow to import

    try:
        date = parsedate_to_datetime(value)
        # The asctime format has no time zone, but every HTTP date is in GMT.
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
