"""The cost of an answer, by the price table of `genai-prices`.

The library's own calculation takes about 130 µs per call, half the time of a whole bare request.
So the prices of a model are looked up once and multiplied here, with the same result (a test
compares them). The lookup is repeated every half hour, because a price may depend on the date and
the time of day. `_billing.py` reads the billing data of a reply, `_price_table.py` loads the table.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeAlias

from ..errors import MissingExtraError
from ._answer import Billing, Tokens

__all__ = ["cost", "load"]

# Prices by the time of day change on the half hour.
_SLOT_SECONDS = 1800
_DIGITS = 10  # after the point of a dollar amount: finer than the price of any token
# Our name of each rate: the name in the table, and the number of units that its price is for.
_KEYS = {
    "input": ("input_mtok", 1_000_000),
    "output": ("output_mtok", 1_000_000),
    "cache_read": ("cache_read_mtok", 1_000_000),
    "cache_write": ("cache_write_mtok", 1_000_000),
    "cache_write_1h": ("cache_write_1h_mtok", 1_000_000),
    "request": ("requests_kcount", 1_000),
}

_NO_BILLING = Billing()

_Rate: TypeAlias = Callable[[int], float]  # dollars per unit, given the length of the prompt
_Rates: TypeAlias = Callable[[int], Mapping[str, float]]  # all rates, given the same


def load() -> None:
    """Load the price table early; `cost` would load it on first use."""
    with suppress(ImportError):  # `cost` raises it
        _snapshot()


def cost(
    provider: str | None, model: str, tokens: Tokens, *, now: Callable[[], float] = time.time
) -> float | None:
    """Return the cost of an answer in dollars, None if the price of a model is not known.

    The amount that the provider billed takes precedence. Otherwise the price is that of the model
    that answered or, if the table does not have it, that of `model`, the requested one.
    """
    billing = tokens.billing or _NO_BILLING
    if billing.dollars is not None:
        return round(billing.dollars, _DIGITS)
    slot = int(now()) // _SLOT_SECONDS
    if billing.parts:
        return _sum(provider, model, billing, slot)
    price = _price(provider, billing.model, billing.tier, slot) if billing.model else None
    if price is None:
        price = _price(provider, model, billing.tier, slot)
    return None if price is None else round(_dollars(price, tokens), _DIGITS)


def _sum(provider: str | None, model: str, billing: Billing, slot: int) -> float | None:
    """Return the cost of the parts of an answer, None if the price of one is not known."""
    total = 0.0
    for other, tokens in billing.parts:
        models = [other] if other else filter(None, (billing.model, model))
        prices = (_price(provider, name, billing.tier, slot) for name in models)
        price = next(filter(None, prices), None)
        if price is None:
            return None
        total += _dollars(price, tokens)
    return round(total, _DIGITS)


def _dollars(rates: _Rates, tokens: Tokens) -> float:
    prompt, completion = tokens.prompt or 0, tokens.completion or 0
    price = rates(prompt)
    dollars = price["output"] * completion + price["request"]
    if not tokens.cached and not tokens.cache_write:
        return dollars + price["input"] * prompt
    # Each class of tokens is part of the previous one and has its own rate.
    cached = min(tokens.cached, prompt)
    written = min(tokens.cache_write, prompt - cached)
    for_an_hour = min(tokens.cache_write_1h, written)
    return (
        dollars
        + price["input"] * (prompt - cached - written)
        + price["cache_read"] * cached
        + price["cache_write"] * (written - for_an_hour)
        + price["cache_write_1h"] * for_an_hour
    )


@lru_cache(maxsize=1024)
def _price(provider: str | None, model: str, tier: str, slot: int) -> _Rates | None:
    """Return the rates of a model; a class of tokens without a rate uses that of its parent."""
    prices = _find_prices(provider, model, tier, slot)
    if prices is None:
        return None
    rates = {name: _rate(prices[key], per) for name, (key, per) in _KEYS.items() if key in prices}
    if prices and "input" not in rates and "output" not in rates:
        return None  # not priced by tokens; a model without any price is free
    rates.setdefault("request", _free)
    rates.setdefault("input", _free)
    rates.setdefault("output", _free)
    rates.setdefault("cache_read", rates["input"])
    rates.setdefault("cache_write", rates["input"])
    rates.setdefault("cache_write_1h", rates["cache_write"])
    if not any(hasattr(price, "tiers") for price in prices.values()):
        flat = {name: rate(0) for name, rate in rates.items()}
        return lambda prompt: flat
    return lambda prompt: {name: rate(prompt) for name, rate in rates.items()}


def _find_prices(
    provider: str | None, model: str, tier: str, slot: int
) -> Mapping[str, Any] | None:
    try:
        seller, found = _snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    # A tier applies only to the provider's own models, not to those that it resells.
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
    """Return a rate, which may depend on the length of the prompt."""
    tiers = getattr(price, "tiers", None)
    if tiers is None:
        flat = float(price) / per
        return lambda prompt: flat
    steps = [(tier.start, float(tier.price) / per) for tier in reversed(tiers)]
    base = float(price.base) / per
    return lambda prompt: next((rate for start, rate in steps if prompt > start), base)


def _free(prompt: int) -> float:
    return 0.0
