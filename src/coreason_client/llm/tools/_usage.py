"""The usage of several model calls together. No I/O."""

from typing import Literal

from ..types import Usage

__all__ = ["NO_USAGE", "added"]

NO_USAGE: Usage = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "total_tokens": 0,
    "cost_estimate": 0.0,
}

_Count = Literal["cached_tokens", "cache_write_tokens", "reasoning_tokens"]
_OPTIONAL: tuple[_Count, ...] = ("cached_tokens", "cache_write_tokens", "reasoning_tokens")


def added(first: Usage, second: Usage) -> Usage:
    """Return the sum; its cost is None if one of the costs is not known."""
    costs = first["cost_estimate"], second["cost_estimate"]
    total: Usage = {
        "prompt_tokens": first["prompt_tokens"] + second["prompt_tokens"],
        "completion_tokens": first["completion_tokens"] + second["completion_tokens"],
        "total_tokens": first["total_tokens"] + second["total_tokens"],
        "cost_estimate": None if costs[0] is None or costs[1] is None else costs[0] + costs[1],
    }
    for key in _OPTIONAL:
        if count := first.get(key, 0) + second.get(key, 0):
            total[key] = count
    if first.get("estimated") or second.get("estimated"):
        total["estimated"] = True
    return total
