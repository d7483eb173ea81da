"""A check that several arguments share."""

from typing import Any

__all__ = ["is_number"]


def is_number(value: Any) -> bool:
    """Return True for a finite or infinite number that is neither a bool nor NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
