"""The amounts to reserve and to settle for one attempt, and the limits that it learns. Pure.

The reservation is the highest price of the request: its estimated input, plus `max_tokens` of
output. The estimate of the input is high on purpose: three bytes of text make a token, and an
image, a file or audio makes 2000. Surcharges for writing to a prompt cache are not included.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ..._http._types import Headers
from ..._retry import parse_seconds
from .._answer import Tokens
from .._call import ModelCall
from .._cost import cost
from .._plan import CallPlan, RequestPlan
from .._route import ModelRoute
from .._server_delay import reset_seconds
from ..types import Usage
from ._rules import NANODOLLARS, Learned
from .budgets import Budget

_BYTES_PER_TOKEN = 3
_TOKENS_PER_ITEM = 4  # of a message or a tool
_TOKENS_PER_MEDIUM = 2000
_MIN_DATA = 512  # bytes; a longer text under these names, or a data URL, is a medium
_DATA_NAMES = frozenset({"data", "file_data", "bytes"})


class Bound:
    """The highest number of tokens of a request; `output` is None if it has no bound."""

    __slots__ = ("input", "output")

    def __init__(self, input_: int, output: int | None) -> None:
        self.input = input_
        self.output = output

    @property
    def total(self) -> int:
        """All tokens; an output without a bound counts as 0."""
        return self.input + (self.output or 0)


def bound_of(plan: RequestPlan) -> Bound:
    """Return the bound of a request; embeddings have no output."""
    if isinstance(plan, CallPlan):
        return Bound(estimate_input(plan.call), plan.call.max_tokens)
    return Bound(-(-len(plan.content) // _BYTES_PER_TOKEN), 0)


def estimate_input(call: ModelCall) -> int:
    """Estimate the tokens of messages, tools and the schema of a call; rather too many."""
    total, media = 0, 0
    pending: list[Any] = [*call.messages, *call.tools]
    if call.schema is not None:
        pending.append(call.schema.schema)
    items = len(pending)
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            total += len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
        elif isinstance(value, Mapping):
            for name, inner in value.items():
                if _is_medium(name, inner):
                    media += 1
                else:
                    total += len(str(name))
                    pending.append(inner)
        elif isinstance(value, Sequence):
            pending += value
        elif value is not None:
            total += len(str(value))
    return -(-total // _BYTES_PER_TOKEN) + items * _TOKENS_PER_ITEM + media * _TOKENS_PER_MEDIUM


def price_of(route: ModelRoute, bound: Bound) -> float | None:
    """Return the highest price of a request in dollars, None if the model has no known price."""
    tokens = Tokens(prompt=bound.input, completion=bound.output or 0)
    return cost(route.profile.prices, route.model, tokens)


def reserve_amount(budget: Budget, price: float | None, bound: Bound) -> int | None:
    """Return the nanodollars to reserve, None if the budget refuses the request."""
    if bound.output is None and budget.token_price is None:
        return None
    if price is None:
        if budget.token_price is None:
            return None
        price = budget.token_price * bound.total
    return math.ceil(price * NANODOLLARS)


def settled_amount(budget: Budget, usage: Usage) -> int | None:
    """Return the nanodollars that an attempt cost, None if that is not known."""
    price = usage["cost_estimate"]
    if price is None:
        if budget.token_price is None:
            return None
        price = budget.token_price * usage["total_tokens"]
    return round(price * NANODOLLARS)


def _is_medium(name: Any, value: Any) -> bool:
    if not isinstance(value, str | bytes) or len(value) < _MIN_DATA:
        return False
    is_url = isinstance(value, str) and value.startswith("data:")
    return is_url or name in _DATA_NAMES or isinstance(value, bytes)


# Limits that a provider reports in the headers of a response.
#
# * OpenAI, Groq and others: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, with durations
#   such as `6m0s`. Azure has `x-ratelimit-renewalperiod-…` instead of `reset`, in seconds.
# * Mistral: `x-ratelimit-{limit,remaining}-{req,tokens}-minute`; the reset is a minute away.
# * Anthropic: `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-…`, with times in
#   the format of RFC 3339. Of the three limits on tokens, the one with the fewest remaining counts.
#
# A limit without `remaining`, or without a time of its reset, is ignored, and so is a value that is
# not a number.

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
