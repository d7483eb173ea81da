"""Reads everything in a reply that affects its price, besides the tokens. Pure.

* The model that answered: `model`, or Gemini's `modelVersion`. It takes precedence over the
  requested model, which may be a deployment, a router, or a model that delegated to another one.
* The service tier, which changes the prices of some models.
* The amount billed: OpenRouter's `usage.cost`, in dollars, plus the amount charged to the caller's
  own key at the upstream provider; Perplexity's `usage.cost.total_cost`; xAI's
  `usage.cost_in_usd_ticks`, with 10^10 ticks per dollar.
* Runs that Anthropic bills in addition to the answer. `usage.iterations` lists every run of a
  model. The totals omit two kinds of runs: the compaction of a conversation, and the advice of
  another model, which has its own price. Prices depend on the length of the prompt of a run, so
  each run is priced separately.

Values of an unexpected type are ignored.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ._answer import Billing, Tokens
from ._json import items, mapping, text

__all__ = ["with_billing", "with_iterations"]

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
        _dollars(usage),
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
    complete = _sum(counted) == tokens
    parts = [("", used) for used in (counted if complete else [tokens])]
    parts += [(model, used) for model, used in omitted if used is not None]
    if len(parts) > 1:
        tokens = _sum([used for _, used in parts])
        tokens.billing = Billing(parts=parts)
    return tokens


def _sum(runs: list[Tokens]) -> Tokens:
    total = Tokens()
    for name in _COUNTS:
        setattr(total, name, sum(getattr(run, name) or 0 for run in runs))
    return total


def _dollars(usage: Mapping[str, Any]) -> float | None:
    """Return the amount billed, None if the usage has none."""
    cost = usage.get("cost")
    if isinstance(cost, dict):
        return _amount(cost.get("total_cost"))
    if cost is None:
        ticks = usage.get("cost_in_usd_ticks")
        return None if ticks is None else _amount(ticks, _TICKS_PER_DOLLAR)
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
