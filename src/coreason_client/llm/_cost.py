"""The cost of an answer: the price table of `genai-prices`, how it is loaded, and billing data.

The library's own calculation takes about 130 µs per call, half the time of a whole bare request.
So the prices of a model are looked up once and multiplied here, with the same result (a test
compares them). The lookup is repeated every half hour, because a price may depend on the date and
the time of day.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeAlias

from .._drive import Action
from ..errors import MissingExtraError
from ._answer import Billing, Tokens
from ._json import items, mapping, text
from .types import Usage

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

# Who sells the embedding models whose names begin so.
_SELLERS = {
    "text-embedding-3-": "openai",
    "text-embedding-ada-": "openai",
    "embed-v4": "cohere",
    "pplx-embed-": "perplexity",
}

_NO_BILLING = Billing()
_BATCH = "batch"  # the service tier of requests in a batch
_BATCH_SHARE = 0.5  # of the usual price, for models without batch prices in the table

_Rate: TypeAlias = Callable[[int], float]  # dollars per unit, given the length of the prompt
_Rates: TypeAlias = Callable[[int], Mapping[str, float]]  # all rates, given the same


def _load_table() -> None:
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


def batch_cost(provider: str | None, model: str, tokens: Tokens) -> float | None:
    """Return the cost of an answer in a batch, as `cost` does."""
    billing = replace(tokens.billing or _NO_BILLING, tier=_BATCH)
    return cost(provider, model, replace(tokens, billing=billing))


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
    found = _find_prices(provider, model, tier, slot)
    if found is None:
        return None
    prices, share = found
    rates = {
        name: _rate(prices[key], per / share) for name, (key, per) in _KEYS.items() if key in prices
    }
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
) -> tuple[Mapping[str, Any], float] | None:
    """Return the prices of a model, and the share of them that is charged."""
    if provider is None:  # the table finds only models that answer by their names
        provider = next(
            (seller for name, seller in _SELLERS.items() if model.startswith(name)), None
        )
    try:
        seller, found = _snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    # A tier applies only to the provider's own models, not to those that it resells.
    variants = tier and getattr(found, "price_variants", None)
    own = variants and any(found is one for one in seller.models)
    moment = datetime.fromtimestamp(slot * _SLOT_SECONDS, UTC)
    usual = found.get_prices(moment)
    context = {"processing" if tier == _BATCH else "service_tier": tier}
    prices = found.get_prices(moment, context) if own else usual
    share = _BATCH_SHARE if tier == _BATCH and prices == usual else 1
    return {key: price for key, price in vars(prices).items() if price is not None}, share


def _snapshot() -> Any:
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        raise MissingExtraError("the AI client", "llm") from None
    return get_snapshot()


def _rate(price: Any, per: float) -> _Rate:
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


# Loading without blocking an event loop.
#
# It takes 0.3 to 2 seconds. It is done once per process, in a thread, while the first request
# is under way. An answer that arrives before the table is loaded gets its price afterwards.

_FORK_WAIT = 5.0  # seconds that a fork waits for the table

_lock = threading.Lock()
_loading: Future[None] | None = None
_ended = False  # loading has ended; asking the future takes a lock, for every call


def load_prices() -> Future[None]:
    """Start to load the table unless that was done; the future is done when loading ends."""
    global _loading
    if _loading is None:
        with _lock:
            if _loading is None:
                _loading = Future()
                # Not a daemon: one that is importing at exit may crash the interpreter.
                threading.Thread(target=_run, args=(_loading,), name="coreason-prices").start()
    return _loading


def prices_loaded() -> bool:
    """Return True if loading has ended, with the table or without."""
    return _ended


def _run(loading: Future[None]) -> None:
    global _ended
    try:
        with suppress(Exception):  # `cost` raises it again
            _load_table()
    finally:
        _ended = True
        loading.set_result(None)


async def _wait() -> None:
    """Wait until the table is loaded, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def call_wake(_: Future[None]) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(wake)

    load_prices().add_done_callback(call_wake)
    await woken


class PricesAction(Action):
    """A step that waits until the table is loaded."""

    __slots__ = ()

    def perform(self) -> None:
        """Wait in this thread."""
        load_prices().result()

    async def perform_async(self) -> None:
        """Wait without blocking the event loop."""
        await _wait()


class DeferredPrice:
    """The price of one answer, requested before the table is loaded and set afterwards."""

    def __init__(self) -> None:
        self._request: tuple[str | None, str, Tokens] | None = None

    def __call__(self, provider: str | None, model: str, tokens: Tokens) -> float | None:
        """Return the amount billed if there is one; else store the request for `set`."""
        if tokens.billing is not None and tokens.billing.dollars is not None:
            self._request = None
            return cost(provider, model, tokens)
        self._request = provider, model, tokens
        return None

    def set(self, usage: Usage) -> None:
        """Set the price in the usage that it was requested for; blocks until it is known.

        Raises:
            MissingExtraError: the table is not installed.
        """
        if self._request is not None:
            load_prices().result()
            usage["cost_estimate"] = cost(*self._request)

    async def set_async(self, usage: Usage) -> None:
        """Set the price in the usage that it was requested for.

        Raises:
            MissingExtraError: the table is not installed.
        """
        if self._request is not None:
            await _wait()
            self.set(usage)


def _before_fork() -> None:
    """Wait for the table: a forked child would inherit a half-finished import."""
    if _loading is not None:
        with suppress(TimeoutError):
            _loading.result(_FORK_WAIT)


def _after_fork() -> None:
    """Forget the loading thread, which a forked child does not have."""
    global _lock, _loading
    _lock = threading.Lock()
    if _loading is not None and not _loading.done():
        _loading = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


# Everything in a reply that affects its price, besides the tokens.
#
# * The model that answered: `model`, or Gemini's `modelVersion`. It takes precedence over the
#   requested model, which may be a deployment, a router, or a model that delegated to another one.
# * The service tier, which changes the prices of some models.
# * The amount billed: OpenRouter's `usage.cost`, in dollars, plus the amount charged to the
#   caller's own key at the upstream provider; Perplexity's `usage.cost.total_cost`; xAI's
#   `usage.cost_in_usd_ticks`, with 10^10 ticks per dollar.
# * Runs that Anthropic bills in addition to the answer. `usage.iterations` lists every run of a
#   model. The totals omit two kinds of runs: the compaction of a conversation, and the advice of
#   another model, which has its own price. Prices depend on the length of the prompt of a run, so
#   each run is priced separately.
#
# Values of an unexpected type are ignored.

_TICKS_PER_DOLLAR = 10**10
_MAX_DOLLARS = 1e12  # a higher amount is not a price
_NOT_IN_TOTALS = ("compaction", "advisor_message")
_COUNTS = tuple(field.name for field in fields(Tokens) if field.name != "billing")


def with_billing(tokens: Tokens | None, reply: Mapping[str, Any]) -> Tokens | None:
    """Set `tokens.billing` from a reply or an event of a stream, and return the tokens."""
    if tokens is None:
        return None
    usage = mapping(reply.get("usage"))
    tokens.billing = Billing(
        text(reply.get("model") or reply.get("modelVersion")),
        text(reply.get("service_tier") or usage.get("service_tier")),
        _billed_dollars(usage),
        () if tokens.billing is None else tokens.billing.parts,
    )
    return tokens


def with_iterations(
    tokens: Tokens | None, iterations: Any, read: Callable[[Mapping[str, Any]], Tokens | None]
) -> Tokens | None:
    """Add the runs that Anthropic's totals omit; `read` reads the counts of one run."""
    if not iterations or tokens is None or tokens.prompt is None or tokens.completion is None:
        return tokens
    runs = [(run, read(run)) for run in map(mapping, items(iterations))]
    omitted = [
        (text(run.get("model")), used) for run, used in runs if run.get("type") in _NOT_IN_TOTALS
    ]
    counted = [used for run, used in runs if run.get("type") == "message" and used is not None]
    # The sums differ if one model declined and another one answered.
    complete = _sum_of_counts(counted) == tokens
    parts = [("", used) for used in (counted if complete else [tokens])]
    parts += [(model, used) for model, used in omitted if used is not None]
    if len(parts) > 1:
        tokens = _sum_of_counts([used for _, used in parts])
        tokens.billing = Billing(parts=parts)
    return tokens


def _sum_of_counts(runs: list[Tokens]) -> Tokens:
    total = Tokens()
    for name in _COUNTS:
        setattr(total, name, sum(getattr(run, name) or 0 for run in runs))
    return total


def _billed_dollars(usage: Mapping[str, Any]) -> float | None:
    """Return the amount billed, None if the usage has none."""
    cost = usage.get("cost")
    if cost is None:
        ticks = usage.get("cost_in_usd_ticks")
        return None if ticks is None else _amount(ticks, _TICKS_PER_DOLLAR)
    if isinstance(cost, dict):
        return _amount(cost.get("total_cost"))
    billed = _amount(cost)
    if billed is None or usage.get("is_byok") is not True:
        return billed
    # If the caller has a key at the upstream provider, `cost` is only OpenRouter's fee.
    upstream = _amount(mapping(usage.get("cost_details")).get("upstream_inference_cost"))
    return None if upstream is None else billed + upstream


def _amount(value: Any, per_dollar: int = 1) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / per_dollar if 0 <= value < _MAX_DOLLARS * per_dollar else None
