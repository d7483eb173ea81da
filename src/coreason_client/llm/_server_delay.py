"""The delay that a provider asks for before the next attempt. Pure.

The first of these that is above zero applies: `retry-after-ms`, `Retry-After`, a delay in the body
(Gemini's `RetryInfo`), and for a 429 the time until an exhausted limit is reset.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from .._http._types import Headers, ResponseHead
from .._retry import parse_seconds, retry_after
from ._answer import ProviderFault

_LIMITS = (
    *(f"x-ratelimit-{{}}-{limit}" for limit in ("requests", "tokens")),
    *(
        f"anthropic-ratelimit-{limit}-{{}}"
        for limit in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
)
"""The headers of each limit; `{}` stands for `reset` and `remaining`."""

# Durations in the format of Go: 6m0s, 1h2m3.5s, 120ms.
_DURATION = re.compile(
    r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m(?!s))?(?:([0-9]{1,6}(?:\.[0-9]{1,9})?)s)?"
    r"(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)ms)?",
    re.ASCII,
)
_SECONDS = (3600.0, 60.0, 1.0, 0.001)
_TIMESTAMP = re.compile(r"[0-9-]{10}[Tt ][0-9:.]{5,18}(?:[Zz]|[+-][0-9:]{5})", re.ASCII)


def server_delay(
    head: ResponseHead, fault: ProviderFault, now: Callable[[], float]
) -> float | None:
    """Return the seconds that the provider asks to wait, None instead of zero.

    `now` returns the seconds since 1970; it is used for responses without a `Date`.
    """
    if head.status < 400 and fault.status is None:
        return fault.retry_after or None  # Anthropic sends the header with successes too
    headers = head.headers
    milliseconds = parse_seconds(headers.get("retry-after-ms"))
    if milliseconds:
        return milliseconds / 1000
    header = {name: headers[name] for name in ("retry-after", "date") if name in headers}
    delay = retry_after(header, now) or fault.retry_after or None
    if delay is None and head.status == 429:
        return max(_resets(headers, now), default=0.0) or None
    return delay


def _resets(headers: Headers, now: Callable[[], float]) -> Iterator[float]:
    """Yield the seconds until each exhausted limit is reset."""
    for limit in _LIMITS:
        value = headers.get(limit.format("reset"))
        if value is None or parse_seconds(headers.get(limit.format("remaining"))):
            continue
        wait = reset_seconds(value, headers, now)
        if wait is not None:
            yield wait


def reset_seconds(value: str, headers: Headers, now: Callable[[], float]) -> float | None:
    """Return the seconds until a reset: a duration, a number of seconds, or an RFC 3339 time."""
    wait = _duration(value)
    return _until(value, headers, now) if wait is None else wait


def _duration(value: str) -> float | None:
    """Read a duration such as `6m0s`, or a plain number of seconds."""
    plain = parse_seconds(value)
    if plain is not None:
        return plain
    match = _DURATION.fullmatch(value.strip())
    if match is None or not match[0]:
        return None
    return sum(float(part) * unit for part, unit in zip(match.groups("0"), _SECONDS, strict=True))


def _until(value: str, headers: Headers, now: Callable[[], float]) -> float | None:
    """Return the seconds until an RFC 3339 time, by the `Date` of the response if it has one."""
    from email.utils import format_datetime  # rare, and slow to import

    if not _TIMESTAMP.fullmatch(value.strip()):
        return None
    try:
        moment = datetime.fromisoformat(value.strip().upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    header = {"retry-after": format_datetime(moment.replace(microsecond=0), usegmt=True)}
    if "date" in headers:
        header["date"] = headers["date"]
    return retry_after(header, now)
