"""Reads values and text from untrusted JSON, in which any value may have any type; encodes JSON."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json, to_json

from .errors import LLMRequestError
from .types import Delta, Restarted, TextDelta

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


def as_text(value: Any) -> str:
    """Return a value as JSON, text as it is, and None as an empty text."""
    if value is None or isinstance(value, str):
        return value or ""
    return to_json(value).decode()


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


# The JSON value of an answer while it is being received.
#
# Parsing the whole text after every piece would take quadratic time. So a text is parsed again only
# after it has grown by a fraction of its length, and at the end.

_FRACTION = 64  # the text must grow by 1/64 before it is parsed again
_NOTHING = object()


ANSWER_KEY = "answer"
"""The only key of an answer that is wrapped in an object."""


class GrowingValue:
    """Adds up the text of deltas and parses the part that was received.

    `wrapped`: the value is that of the only key of an object.
    """

    def __init__(self, *, wrapped: bool = False) -> None:
        self._wrapped = wrapped
        self._text = ""
        self._new: list[str] = []
        self._new_length = 0
        self._value: Any = _NOTHING

    @property
    def value(self) -> Any:
        """The value as far as it was received."""
        return self._value

    def add(self, delta: Delta) -> bool:
        """Add a delta; return True if the value has changed."""
        if isinstance(delta, Restarted):
            self.__init__(wrapped=self._wrapped)  # type: ignore[misc]
            return False
        if not isinstance(delta, TextDelta):
            return False
        self._new.append(delta.text)
        self._new_length += len(delta.text)
        if self._new_length * _FRACTION < len(self._text):
            return False
        return self._parse()

    def finish(self) -> bool:
        """Parse the rest at the end of the answer; return True if the value has changed."""
        return bool(self._new) and self._parse()

    def _parse(self) -> bool:
        self._text += "".join(self._new)
        self._new, self._new_length = [], 0
        try:
            value = from_json(self._text, allow_partial="trailing-strings")
        except (ValueError, TypeError):  # not JSON yet, or not at all
            return False
        if self._wrapped:
            value = mapping(value).get(ANSWER_KEY, self._value)
        if value == self._value:
            return False
        self._value = value
        return True


# Text from providers, made safe for our messages: bounded, without control characters.

# Control characters could forge log lines or control a terminal; the others reorder or hide text.
_CONTROLS = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
_MAX_CHARS = 500
_MAX_BYTES = 65_536  # far more than is shown, so that no key is cut before it is redacted
_REASON_KEYS = (
    "message",
    "Message",
    "error_description",
    "error",
    "msg",
    "detail",
    "details",
    "title",
)
_LIST_KEYS = ("errors", "detail", "error")


def clean_text(text: str, max_chars: int = _MAX_CHARS) -> str:
    """Return text as one line that is safe to log, cut to a length."""
    line = _CONTROLS.sub(" ", without_lone_surrogates(text[: 4 * max_chars]))
    return line.strip()[:max_chars]


def error_reason(reply: Any, body: bytes) -> str:
    """Return the reason in an error response of any form, empty if there is none.

    `reply` is the parsed body, None if it is not JSON.
    """
    if reply is None:
        start = body[:_MAX_BYTES].decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
        # Neither a web page nor a JSON null is a reason.
        return "" if start.startswith("<") or start.strip() == "null" else start
    return _reason(reply)


def _reason(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(filter(None, map(_listed_reason, value[:10])))
    described = mapping(value)
    for name in _REASON_KEYS:
        if found := text(described.get(name)):
            return found
    for name in _LIST_KEYS:
        if found := _reason(described.get(name) or ""):
            return found
    return ""


def _listed_reason(value: Any) -> str:
    """Return one of several reasons, with the field that it concerns (`loc` in FastAPI)."""
    where = ".".join(map(str, items(mapping(value).get("loc"))))
    reason = _reason(value)
    return f"{where}: {reason}" if where and reason else reason
