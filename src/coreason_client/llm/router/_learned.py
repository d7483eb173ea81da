"""Reads the limits that a provider reports in the headers of a response. Pure.

* OpenAI, Groq and others: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, with durations
  such as `6m0s`. Azure has `x-ratelimit-renewalperiod-…` instead of `reset`, in seconds.
* Mistral: `x-ratelimit-{limit,remaining}-{req,tokens}-minute`; the reset is a minute away.
* Anthropic: `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-…`, with times in the
  format of RFC 3339. Of the three limits on tokens, the one with the fewest remaining counts.

A limit without `remaining`, or without a time of its reset, is ignored, and so is a value that is
not a number.
"""

import time
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from ..._http._types import Headers
from ..._retry import parse_seconds
from .._server_delay import reset_seconds
from ._commands import Learned

__all__ = ["learned_limits"]

_Kind: TypeAlias = Literal["requests", "tokens"]

_MAX_SECONDS = 86_400.0
_MAX_NUMBER = 10**12


def _names() -> Iterator[tuple[_Kind, str, str, str | float]]:
    """Yield the names of limit, remaining and reset; a number instead of a name is the reset."""
    kinds: tuple[_Kind, _Kind] = ("requests", "tokens")
    for kind in kinds:
        limit, remaining = f"x-ratelimit-limit-{kind}", f"x-ratelimit-remaining-{kind}"
        yield kind, limit, remaining, f"x-ratelimit-reset-{kind}"
        yield kind, limit, remaining, f"x-ratelimit-renewalperiod-{kind}"
    for kind, name in zip(kinds, ("req", "tokens"), strict=True):
        part = f"{name}-minute"
        yield kind, f"x-ratelimit-limit-{part}", f"x-ratelimit-remaining-{part}", 60.0
    for name in ("requests", "tokens", "input-tokens", "output-tokens"):
        base = f"anthropic-ratelimit-{name}"
        kind = "requests" if name == "requests" else "tokens"
        yield kind, f"{base}-limit", f"{base}-remaining", f"{base}-reset"


_NAMES = tuple(_names())


def learned_limits(headers: Headers, now: Callable[[], float] = time.time) -> tuple[Learned, ...]:
    """Return the limits in the headers of a response, at most one of each kind."""
    if not any("ratelimit" in name.lower() for name in headers):
        return ()
    found: dict[str, Learned] = {}
    for learned in _limits(headers, now):
        known = found.get(learned.kind)
        if known is None or learned.remaining < known.remaining:
            found[learned.kind] = learned
    return tuple(found.values())


def _limits(headers: Headers, now: Callable[[], float]) -> Iterator[Learned]:
    for kind, limit_name, remaining_name, reset_name in _NAMES:
        remaining = _number(headers.get(remaining_name))
        if remaining is None:
            continue
        if isinstance(reset_name, float):
            reset: float | None = reset_name
        else:
            value = headers.get(reset_name)
            reset = None if value is None else reset_seconds(value, headers, now)
        if reset is None or not 0 < reset <= _MAX_SECONDS:
            continue
        limit = _number(headers.get(limit_name))
        missing = 0 if limit is None else max(0, limit - remaining)
        yield Learned(kind, remaining, missing, max(1, int(reset * 1000)))


def _number(value: str | None) -> int | None:
    number = parse_seconds(value)  # any number that is not negative
    return None if number is None or number > _MAX_NUMBER else int(number)
