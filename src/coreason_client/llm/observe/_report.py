"""Calls of telemetry whose failures are logged, because they must not fail what they report."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["report"]

Value = TypeVar("Value")

logger = logging.getLogger("coreason_client.llm")


def report(action: Callable[..., Value], *arguments: Any) -> Value | None:
    """Call a function and return its value; log an error that it raises, and return None."""
    try:
        return action(*arguments)
    except Exception as raised:
        logger.error("telemetry failed: %s", type(raised).__name__, exc_info=raised)
        return None
