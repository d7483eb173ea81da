"""Reading values out of JSON from outside, where anything may stand anywhere."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

__all__ = [
    "codes",
    "count",
    "http_status",
    "is_finite",
    "items",
    "mapping",
    "parse",
    "text",
    "without_halves",
]

_NOTHING: Mapping[str, Any] = {}
_TOO_MANY = 2**53  # beyond, a float would not be exact
_HALF = re.compile("[\ud800-\udfff]")
_INFINITE = (float("inf"), float("-inf"))


def parse(data: bytes, *, keep_halves: bool = False) -> Any:
    """Parse JSON as providers send it.

    A byte order mark is skipped, a byte that is not UTF-8 becomes U+FFFD, and control characters
    may stand inside strings. One half of a surrogate pair becomes U+FFFD as well. With
    `keep_halves` it stays at the edge of a string: the other half may be in the next piece.

    Raises:
        ValueError: the data is not JSON.
    """
    try:
        return from_json(data)
    except ValueError:
        pass
    try:
        value = json.loads(data.decode("utf-8-sig", "replace"), strict=False)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return _mended(value, _without_inner_halves if keep_halves else without_halves)


def without_halves(text: str) -> str:
    """Return a text in which whole surrogate pairs are joined and halves of one are U+FFFD."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _without_inner_halves(text: str) -> str:
    first = text[:1] if "\udc00" <= text[:1] <= "\udfff" else ""
    last = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return first + without_halves(text[len(first) : len(text) - len(last)]) + last


def _mended(value: Any, mend: Callable[[str], str]) -> Any:
    """Return a JSON value with every string mended."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, list):
        return [_mended(item, mend) for item in value]
    if isinstance(value, dict):
        return {mend(key): _mended(value[key], mend) for key in value}
    return value


def is_finite(value: Any) -> bool:
    """Return True if a JSON value holds neither NaN nor an infinity, which JSON does not have."""
    if isinstance(value, float):
        return value == value and value not in _INFINITE
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    return not isinstance(value, list) or all(map(is_finite, value))


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
    """Return a non-negative count, or None."""
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
