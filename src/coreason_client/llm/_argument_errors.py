"""Errors for invalid arguments of a call."""

from collections.abc import Iterable
from typing import Any

from ..errors import ArgumentError, shown_value
from .errors import LLMRequestError

__all__ = ["invalid", "quoted"]


def invalid(argument: str, rule: str, value: Any) -> LLMRequestError:
    """Return the error for an argument that breaks a rule, such as "must be text"."""
    error = ArgumentError(argument, rule, value)
    return LLMRequestError(str(error), argument_error=error)


def quoted(keys: Iterable[Any]) -> str:
    """Return keys as a list for an error message."""
    return " and ".join(sorted(map(shown_value, keys)))
