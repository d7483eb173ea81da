"""Reads values from untrusted JSON, in which any value may have any type, and encodes JSON."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json, to_json

from .errors import LLMRequestError

__all__ = [
    "codes",
    "count",
    "encode",
    "encode_body",
    "http_status",
    "is_finite",
    "items",
    "mapping",
    "parse",
    "parse_or_none",
    "text",
    "with_extra",
    "with_query",
    "without_lone_surrogates",
]

_EMPTY: Mapping[str, Any] = {}
_MAX_COUNT = 2**53  # above it, a float is not exact
_SURROGATE = re.compile("[\ud800-\udfff]")
_N, _I = ord("N"), ord("I")
_INFINITE = (float("inf"), float("-inf"))


def parse(data: bytes, *, keep_edge_surrogates: bool = False) -> Any:
    """Parse JSON as providers send it.

    A byte order mark is skipped, a byte that is not UTF-8 becomes U+FFFD, and control characters
    are allowed inside strings. Half of a surrogate pair becomes U+FFFD as well.
    `keep_edge_surrogates` keeps it at the start or end of a string: the other half may be in the
    next or the previous piece.

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
    return _repaired(
        value, _without_inner_surrogates if keep_edge_surrogates else without_lone_surrogates
    )


def encode(value: Any) -> bytes:
    """Encode a value as JSON.

    Raises:
        ValueError: a part of it cannot be encoded.
    """
    content = to_json(value)
    # Most texts have neither letter, and looking for a byte takes a fifth of the time.
    if (_N in content and b"NaN" in content) or (_I in content and b"Infinity" in content):
        json.dumps(value, allow_nan=False, default=str)  # it may be part of a text
    return content


def parse_or_none(data: bytes) -> Any:
    """Parse JSON as `parse` does; None if the data is not JSON."""
    try:
        return from_json(data)
    except ValueError:
        pass
    try:
        return parse(data)
    except ValueError:
        return None


def without_lone_surrogates(text: str) -> str:
    """Return a text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _without_inner_surrogates(text: str) -> str:
    first = text[:1] if "\udc00" <= text[:1] <= "\udfff" else ""
    last = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return first + without_lone_surrogates(text[len(first) : len(text) - len(last)]) + last


def _repaired(value: Any, repair: Callable[[str], str]) -> Any:
    """Return a JSON value with every string repaired."""
    if isinstance(value, str):
        return repair(value)
    if isinstance(value, list):
        return [_repaired(item, repair) for item in value]
    if isinstance(value, dict):
        return {repair(key): _repaired(value[key], repair) for key in value}
    return value


def is_finite(value: Any) -> bool:
    """Return True if a value contains neither NaN nor an infinity, which JSON does not have."""
    if isinstance(value, float):
        return value == value and value not in _INFINITE
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    return not isinstance(value, list) or all(map(is_finite, value))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, or an empty one if the value is not an object."""
    return value if isinstance(value, dict) else _EMPTY


def items(value: Any) -> list[Any]:
    """Return a list, or an empty one if the value is not a list."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a text, or an empty one if the value is not text."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int | None:
    """Return a non-negative count, or None."""
    if value.__class__ is int:
        return value if 0 <= value < _MAX_COUNT else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _MAX_COUNT else None


def codes(*values: Any) -> tuple[str, ...]:
    """Return the error codes among values, as text; empty texts and zeros are left out."""
    return tuple(str(value) for value in values if value and type(value) in (str, int))


def http_status(value: Any) -> int | None:
    """Return a number if it is the HTTP status of an error, else None."""
    number = count(value)
    return number if number is not None and 400 <= number < 600 else None


# Bodies of requests.


def encode_body(body: Mapping[str, Any], model: str) -> bytes:
    """Return a body as JSON; `model` is for the error.

    Raises:
        LLMRequestError: a value cannot be encoded.
    """
    try:
        return encode(body)
    except ValueError as error:
        raise LLMRequestError(
            f"the request cannot be encoded as JSON: {error}", model=model
        ) from None


def with_extra(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Add the caller's own fields to a body: objects are merged, other values replaced."""
    for name, value in extra.items():
        known = body.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            value = {**known, **value}
        body[name] = value
    return body


def with_query(url: str, query: str) -> str:
    """Add a query, which may be empty, to a URL."""
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url
