"""What a reply says about its price, besides the tokens. Pure.

* The model that answered: `model`, or Gemini's `modelVersion`. It counts before the one that was
  asked for, which may be a deployment's name, a router, or a model that handed over to another.
* The service tier, which changes the prices of some models.
* The amount that was billed: OpenRouter's `usage.cost`, in dollars, with what the caller's own key
  at the upstream provider was charged; Perplexity's `usage.cost.total_cost`; xAI's
  `usage.cost_in_usd_ticks`, of which 10^10 are a dollar.
* Runs that Anthropic bills beside the answer. `usage.iterations` lists every run of a model. The
  counts beside it leave out two kinds of them: the compaction of a conversation, and the advice of
  another model, which has its own price. Prices depend on the length of one run's prompt, so each
  run is priced by itself.

A value of another kind than expected is ignored.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ._json import items, mapping, text
from ._terms import Bill, Tokens

__all__ = ["with_bill", "with_iterations"]

_TICKS_PER_DOLLAR = 10**10
_MOST_DOLLARS = 1e12  # beyond, it is no price
_BESIDE = ("compaction", "advisor_message")
_COUNTS = tuple(field.name for field in fields(Tokens) if field.name != "bill")


def with_bill(tokens: Tokens | None, reply: Mapping[str, Any]) -> Tokens | None:
    """Add to tokens what a reply, or an event of a stream, says about their price."""
    if tokens is None:
        return None
    usage = mapping(reply.get("usage"))
    tokens.bill = Bill(
        text(reply.get("model") or reply.get("modelVersion")),
        text(reply.get("service_tier") or usage.get("service_tier")),
        _dollars(usage),
        () if tokens.bill is None else tokens.bill.parts,
    )
    return tokens


def with_iterations(
    tokens: Tokens | None, iterations: Any, read: Callable[[Mapping[str, Any]], Tokens | None]
) -> Tokens | None:
    """Add the runs that Anthropic's counts leave out; `read` reads the counts of one run."""
    if not iterations or tokens is None or tokens.prompt is None or tokens.completion is None:
        return tokens
    runs = [(run, read(run)) for run in map(mapping, items(iterations))]
    beside = [(text(run.get("model")), used) for run, used in runs if run.get("type") in _BESIDE]
    counted = [used for run, used in runs if run.get("type") == "message" and used is not None]
    whole = _sum(counted) == tokens  # not so when a model declined and another one answered
    parts = [("", used) for used in (counted if whole else [tokens])]
    parts += [(model, used) for model, used in beside if used is not None]
    if len(parts) > 1:
        tokens = _sum([used for _, used in parts])
        tokens.bill = Bill(parts=parts)
    return tokens


def _sum(several: list[Tokens]) -> Tokens:
    total = Tokens()
    for name in _COUNTS:
        setattr(total, name, sum(getattr(one, name) or 0 for one in several))
    return total


def _dollars(usage: Mapping[str, Any]) -> float | None:
    """Return the amount that was billed, None where the usage names none."""
    cost = usage.get("cost")
    if isinstance(cost, dict):
        return _amount(cost.get("total_cost"))
    if cost is None:
        ticks = usage.get("cost_in_usd_ticks")
        return None if ticks is None else _amount(ticks, _TICKS_PER_DOLLAR)
    billed = _amount(cost)
    if billed is None or usage.get("is_byok") is not True:
        return billed
    # With a key of one's own at the upstream provider, the cost is only OpenRouter's fee.
    upstream = _amount(mapping(usage.get("cost_details")).get("upstream_inference_cost"))
    return None if upstream is None else billed + upstream


def _amount(value: Any, per_dollar: int = 1) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / per_dollar if 0 <= value < _MOST_DOLLARS * per_dollar else None
