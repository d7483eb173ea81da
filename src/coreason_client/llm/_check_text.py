"""Checks of text that is sent."""

from typing import Any

from ._argument_errors import invalid
from .errors import LLMRequestError

__all__ = ["check_text", "is_encodable"]


def check_text(where: str, text: Any) -> None:
    """Check that a value is text that can be sent; `where` is its name in the error.

    Raises:
        LLMRequestError: it is not.
    """
    if not isinstance(text, str):
        raise invalid(where, "must be text", text)
    if not is_encodable(text):
        raise LLMRequestError(f"{where} must be valid Unicode, got half of a surrogate pair")


def is_encodable(text: str) -> bool:
    """Return True if a text can be encoded as UTF-8."""
    if text.isascii():  # fast: str stores this as a flag
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
