"""The provider's own words in our messages: bounded, and without control characters."""

import re
from typing import Any

from ._json import items, mapping, text, without_halves

__all__ = ["cleaned", "reason_in"]

# Control characters could forge log lines or drive a terminal; the rest reorders or hides text.
_CONTROLS = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
_LONGEST = 500
_MOST_BYTES = 65_536  # far more than is shown, so that no key is cut in half before it is hidden
_REASONS = ("message", "Message", "error_description", "error", "msg", "detail", "details", "title")
_LISTS = ("errors", "detail", "error")


def cleaned(words: str, longest: int = _LONGEST) -> str:
    """Return text of a provider as one line that is safe to log, cut to a length."""
    return _CONTROLS.sub(" ", without_halves(words[: 4 * longest])).strip()[:longest]


def reason_in(reply: Any, body: bytes) -> str:
    """Return the reason that an error response gives, whatever its form; empty when it has none.

    `reply` is the body as JSON, None when it is not JSON.
    """
    if reply is None:
        start = body[:_MOST_BYTES].decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
        # A web page gives no reason, and neither does JSON's null.
        return "" if start.startswith("<") or start.strip() == "null" else start
    return _reason(reply)


def _reason(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(filter(None, map(_listed_reason, value[:10])))
    described = mapping(value)
    for name in _REASONS:
        if found := text(described.get(name)):
            return found
    for name in _LISTS:
        if found := _reason(described.get(name) or ""):
            return found
    return ""


def _listed_reason(value: Any) -> str:
    """Return one of several reasons, with the field that it is about as FastAPI names it."""
    where = ".".join(map(str, items(mapping(value).get("loc"))))
    reason = _reason(value)
    return f"{where}: {reason}" if where and reason else reason
