"""The tokens and the cost of an answer, in words."""

from collections.abc import Mapping
from typing import Any

__all__ = ["usage_of", "usage_words"]


def usage_of(event: Mapping[str, Any]) -> str | None:
    """Return the words for an event that tells what an answer used; None when it is another."""
    data = event.get("data")
    if event.get("type") != "USAGE" or not isinstance(data, dict):
        return None
    model, counts = data.get("model"), (data.get("prompt_tokens"), data.get("completion_tokens"))
    if not isinstance(model, str) or not all(isinstance(count, int) for count in counts):
        return None
    return usage_words(model, data)


def usage_words(model: str, usage: Mapping[str, Any]) -> str:
    """Return the tokens and the dollars of an answer in one line."""
    about = "about " if usage.get("estimated") else ""
    words = f"{model}: {about}{usage['prompt_tokens']} + {usage['completion_tokens']} tokens"
    dollars = usage.get("cost_estimate")
    return f"{words}, ${dollars:.6f}" if isinstance(dollars, int | float) else words
