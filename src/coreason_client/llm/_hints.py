"""How long a provider asks to wait before the next attempt. Pure.

The first of these that says more than nothing counts: `retry-after-ms`, `Retry-After`, a delay in
the body (Gemini's `RetryInfo`), and with a 429 the time at which an exhausted limit is reset.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from .._http._types import Headers, ResponseHead
from .._retry import parse_seconds, retry_after
from ._terms import Fault

__all__ = ["retry_hint"]

_LIMITS = (
    *(f"x-ratelimit-{{}}-{limit}" for limit in ("requests", "tokens")),
    *(
        f"anthropic-ratelimit-{limit}-{{}}"
        for limit in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
)
"""The headers of each limit, with a gap for `reset` and `remaining`."""

# As Go writes durations: 6m0s, 1h2m3.5s, 120ms.
_DURATION = re.compile(
    r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m(?!s))?(?:([0-9]{1,6}(?:\.[0-9]{1,9})?)s)?"
    r"(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)ms)?",
    re.ASCII,
)
_SECONDS = (3600.0, 60.0, 1.0, 0.001)
_MOMENT = re.compile(r"[0-9-]{10}[Tt ][0-9:.]{5,18}(?:[Zz]|[+-][0-9:]{5})", re.ASCII)


def retry_hint(head: ResponseHead, fault: Fault, now: Callable[[], float]) -> float | None:
    """Return the seconds that the provider asks to wait; a delay of zero is none.

    `now` gives the seconds since 1970, for responses without a `Date`.
    """
    if head.status < 400 and fault.status is None:
        return fault.retry_after or None  # Anthropic sends the header with successes too
    headers = head.headers
    milliseconds = parse_seconds(headers.get("retry-after-ms"))
    if milliseconds:
        return milliseconds / 1000
    header = {name: headers[name] for name in ("retry-after", "date") if name in headers}
    hint = retry_after(header, now) or fault.retry_after or None
    if hint is None and head.status == 429:
        return max(_resets(headers, now), default=0.0) or None
    return hint


def _resets(headers: Headers, now: Callable[[], float]) -> Iterator[float]:
    """Return the seconds until each exhausted limit is reset."""
    for limit in _LIMITS:
        value = headers.get(limit.format("reset"))
        if value is None or parse_seconds(headers.get(limit.format("remaining"))):
            continue
        wait = _duration(value)
        if wait is None:
            wait = _until(value, headers, now)
        if wait is not None:
            yield wait


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
    """Return the seconds until an RFC 3339 moment, by the response's own clock if it shows one."""
    from email.utils import format_datetime  # rare, and slow to import

    if not _MOMENT.fullmatch(value.strip()):
        return None
    try:
        moment = datetime.fromisoformat(value.strip().upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    header = {"retry-after": format_datetime(moment.replace(microsecond=0), usegmt=True)}
    if "date" in headers:
        header["date"] = headers["date"]
    return retry_after(header, now)
