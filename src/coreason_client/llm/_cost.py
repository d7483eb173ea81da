"""What an answer cost, by the price table of `genai-prices`.

The library's own arithmetic takes about 130 µs a call, half of what a whole bare request costs; so
the prices of a model are looked up once and multiplied here, with the same result (a test compares
them). They are looked up again now and then, since a price may depend on the date and the time of
day. What a reply says about its price comes from `_bill.py`, the thread that loads the table from
`_prices.py`.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeAlias

from ..errors import MissingExtraError
from ._terms import Bill, Tokens

__all__ = ["cost", "load"]

# Prices by the time of day change on the half hour.
_SLOT_SECONDS = 1800
_DIGITS = 10  # of a dollar: less than any token costs
# Our names for the rates, theirs, and for how many the table tells the price.
_KEYS = {
    "input": ("input_mtok", 1_000_000),
    "output": ("output_mtok", 1_000_000),
    "cache_read": ("cache_read_mtok", 1_000_000),
    "cache_write": ("cache_write_mtok", 1_000_000),
    "cache_write_1h": ("cache_write_1h_mtok", 1_000_000),
    "request": ("requests_kcount", 1_000),
}

_NO_BILL = Bill()

_Rate: TypeAlias = Callable[[int], float]  # dollars for one, by the length of the prompt


def load() -> None:
    """Load the price table; it is loaded anyway when it is needed."""
    with suppress(ImportError):  # for whoever needs a price to tell
        _snapshot()


def cost(
    provider: str | None, model: str, tokens: Tokens, *, now: Callable[[], float] = time.time
) -> float | None:
    """Return the dollars that an answer cost, None when the price of a model is not known.

    The amount that the provider billed comes first. Else the model that answered is priced, or
    `model`, which was asked for, when the table does not know that one.
    """
    bill = tokens.bill or _NO_BILL
    if bill.dollars is not None:
        return round(bill.dollars, _DIGITS)
    slot = int(now()) // _SLOT_SECONDS
    if bill.parts:
        return _sum(provider, model, bill, slot)
    price = _price(provider, bill.model, bill.tier, slot) if bill.model else None
    if price is None:
        price = _price(provider, model, bill.tier, slot)
    return None if price is None else round(_dollars(price, tokens), _DIGITS)


def _sum(provider: str | None, model: str, bill: Bill, slot: int) -> float | None:
    """Return what the parts of an answer cost, None when the price of one is not known."""
    total = 0.0
    for other, tokens in bill.parts:
        models = [other] if other else filter(None, (bill.model, model))
        prices = (_price(provider, name, bill.tier, slot) for name in models)
        price = next(filter(None, prices), None)
        if price is None:
            return None
        total += _dollars(price, tokens)
    return round(total, _DIGITS)


def _dollars(price: Mapping[str, _Rate], tokens: Tokens) -> float:
    prompt, completion = tokens.prompt or 0, tokens.completion or 0
    dollars = price["output"](prompt) * completion + price["request"](prompt)
    if not tokens.cached and not tokens.cache_write:
        return dollars + price["input"](prompt) * prompt
    # Each class of tokens is part of the one before it, and pays its own rate.
    cached = min(tokens.cached, prompt)
    written = min(tokens.cache_write, prompt - cached)
    for_an_hour = min(tokens.cache_write_1h, written)
    return (
        dollars
        + price["input"](prompt) * (prompt - cached - written)
        + price["cache_read"](prompt) * cached
        + price["cache_write"](prompt) * (written - for_an_hour)
        + price["cache_write_1h"](prompt) * for_an_hour
    )


@lru_cache(maxsize=1024)
def _price(provider: str | None, model: str, tier: str, slot: int) -> Mapping[str, _Rate] | None:
    """Return the rates of a model; one that a class of tokens does not have is its parent's."""
    prices = _looked_up(provider, model, tier, slot)
    if prices is None:
        return None
    rates = {name: _rate(prices[key], per) for name, (key, per) in _KEYS.items() if key in prices}
    if prices and "input" not in rates and "output" not in rates:
        return None  # priced by something else than tokens; without any price it is free
    rates.setdefault("request", _free)
    rates.setdefault("input", _free)
    rates.setdefault("output", _free)
    rates.setdefault("cache_read", rates["input"])
    rates.setdefault("cache_write", rates["input"])
    rates.setdefault("cache_write_1h", rates["cache_write"])
    return rates


def _looked_up(provider: str | None, model: str, tier: str, slot: int) -> Mapping[str, Any] | None:
    try:
        seller, found = _snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    # A tier counts for the models of the provider itself, not for those that it resells.
    variants = tier and getattr(found, "price_variants", None)
    own = variants and any(found is one for one in seller.models)
    moment = datetime.fromtimestamp(slot * _SLOT_SECONDS, UTC)
    prices = found.get_prices(moment, {"service_tier": tier}) if own else found.get_prices(moment)
    return {key: price for key, price in vars(prices).items() if price is not None}


def _snapshot() -> Any:
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        raise MissingExtraError("the AI client", "llm") from None
    return get_snapshot()


def _rate(price: Any, per: int) -> _Rate:
    """Return a rate: a number, or one that the prompt's length decides."""
    tiers = getattr(price, "tiers", None)
    if tiers is None:
        flat = float(price) / per
        return lambda prompt: flat
    steps = [(tier.start, float(tier.price) / per) for tier in reversed(tiers)]
    base = float(price.base) / per
    return lambda prompt: next((rate for start, rate in steps if prompt > start), base)


def _free(prompt: int) -> float:
    return 0.0
