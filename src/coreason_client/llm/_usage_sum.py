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
    total = NO_USAGE.copy()
    cost: float | None = 0.0
    for usage in usages:
        total["prompt_tokens"] += usage["prompt_tokens"]
        total["completion_tokens"] += usage["completion_tokens"]
        total["total_tokens"] += usage["total_tokens"]
        more = usage["cost_estimate"]
        cost = None if cost is None or more is None else cost + more
        if len(usage) > len(NO_USAGE):  # most have only what every usage has
            _add_optional(total, usage)
    total["cost_estimate"] = cost
    return total


def _add_optional(total: Usage, usage: Usage) -> None:
    for name in _OPTIONAL:
        if count := usage.get(name):
            total[name] = total.get(name, 0) + count
    if usage.get("estimated"):
        total["estimated"] = True
