"""The amounts to reserve and to settle for one attempt. Pure.

The reservation is the highest price of the request: its estimated input, plus `max_tokens` of
output. The estimate of the input is high on purpose: three bytes of text make a token, and an
image, a file or audio makes 2000. Surcharges for writing to a prompt cache are not included.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .._answer import Tokens
from .._call import Call
from .._cost import cost
from .._plan import Plan
from .._request_plan import RequestPlan
from .._route import Route
from ..types import Usage
from ._commands import NANODOLLARS
from .budgets import Budget

__all__ = ["Bound", "bound_of", "estimate_input", "price_of", "reserve_amount", "settled_amount"]

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
    if isinstance(plan, Plan):
        return Bound(estimate_input(plan.call), plan.call.max_tokens)
    return Bound(-(-len(plan.content) // _BYTES_PER_TOKEN), 0)


def estimate_input(call: Call) -> int:
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


def price_of(route: Route, bound: Bound) -> float | None:
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
