"""Encodes the JSON body of a request. Pure."""

from collections.abc import Mapping
from typing import Any

from ._json import encode
from .errors import LLMRequestError

__all__ = ["encode_body", "with_extra", "with_query"]


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
