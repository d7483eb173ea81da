"""Reading values out of JSON from outside, where anything may stand anywhere."""

from collections.abc import Mapping
from typing import Any

__all__ = ["codes", "count", "http_status", "items", "mapping", "text"]

_NOTHING: Mapping[str, Any] = {}
_TOO_MANY = 2**53  # beyond, a float would not be exact


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, dict) else _NOTHING


def items(value: Any) -> list[Any]:
    """Return a list, an empty one for anything else."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a text, an empty one for anything else."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int | None:
    """Return a number of things, None for what is none."""
    if value.__class__ is int:
        return value if 0 <= value < _TOO_MANY else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _TOO_MANY else None


def codes(*values: Any) -> tuple[str, ...]:
    """Return the codes of an error among values, as text; an empty one or a zero is none."""
    return tuple(str(value) for value in values if value and type(value) in (str, int))


def http_status(value: Any) -> int | None:
    """Return the HTTP status of an error that a body names, None for what is none."""
    number = count(value)
    return number if number is not None and 400 <= number < 600 else None
