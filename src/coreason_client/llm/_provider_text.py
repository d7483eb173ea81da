"""Text from providers, made safe for our messages: bounded, without control characters."""

import re
from typing import Any

from ._json import items, mapping, text, without_lone_surrogates

__all__ = ["clean_text", "error_reason"]

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
