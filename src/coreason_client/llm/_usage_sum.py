"""The sum of the usage of several answers. Pure."""

from collections.abc import Sequence
from typing import Literal

from .types import Usage

__all__ = ["NO_USAGE", "add_usages"]

NO_USAGE: Usage = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "total_tokens": 0,
    "cost_estimate": 0.0,
}

_Count = Literal["cached_tokens", "cache_write_tokens", "reasoning_tokens"]
_OPTIONAL: tuple[_Count, ...] = ("cached_tokens", "cache_write_tokens", "reasoning_tokens")


def add_usages(usages: Sequence[Usage]) -> Usage:
    """Return the sum of usages; its cost is None if one of them has no known cost."""
    costs = [usage["cost_estimate"] for usage in usages]
    total: Usage = {
        "prompt_tokens": sum(usage["prompt_tokens"] for usage in usages),
        "completion_tokens": sum(usage["completion_tokens"] for usage in usages),
        "total_tokens": sum(usage["total_tokens"] for usage in usages),
        "cost_estimate": None if None in costs else sum(cost for cost in costs if cost),
    }
    for name in _OPTIONAL:
        if count := sum(usage.get(name, 0) for usage in usages):
            total[name] = count
    if any(usage.get("estimated") for usage in usages):
        total["estimated"] = True
    return total
