"""Valid parts of calls, for the tests of their checks."""

from collections.abc import Callable
from typing import Any

import pytest

from coreason_client.llm import LLMRequestError

__all__ = [
    "CALLED",
    "HALF",
    "HUGE",
    "PIXEL",
    "RESULT",
    "SCHEMA",
    "USER",
    "WEATHER",
    "rejection",
    "tool",
]

HUGE = 10**5000  # Python does not write a number of so many digits
HALF = "half \ud83d"

USER = {"role": "user", "content": "What is the weather in Rome?"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "name": "get_weather", "arguments": {"city": "Rome"}}],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def tool(**function: Any) -> list[Any]:
    return [{"type": "function", "function": {"name": "f"} | function}]


def rejection(check: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """Return the message with which a check rejects its arguments, before anything is sent."""
    with pytest.raises(LLMRequestError) as caught:
        check(*arguments, **options)
    error, message = caught.value, str(caught.value)
    assert (error.attempts, error.status, error.provider) == (0, None, None)
    assert len(message) < 400
    return message
