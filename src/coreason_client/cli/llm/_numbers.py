"""Numbers on the command line that can be left to the provider. Pure."""

from typing import TypeVar

from coreason_client import ArgumentError

__all__ = ["number_or_none"]

T = TypeVar("T", int, float)


def number_or_none(text: str, option: str, kind: type[T]) -> T | None:
    """Return the number in a text, or None for "none".

    Raises:
        ArgumentError: it is neither.
    """
    if text.strip().lower() == "none":
        return None
    # Python's own rules also accept 1_000 and digits of other scripts.
    if text.isascii() and "_" not in text:
        try:
            return kind(text)
        except ValueError:
            pass
    rule = "must be a whole number, or none" if kind is int else "must be a number, or none"
    raise ArgumentError(option, rule, text)
