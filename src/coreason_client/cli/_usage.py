"""The tokens and the cost of an answer as a line of text."""

from collections.abc import Mapping
from typing import Any

__all__ = ["usage_event_line", "usage_line"]


def usage_event_line(event: Mapping[str, Any]) -> str | None:
    """Return the line for a USAGE event, or None for any other event."""
    data = event.get("data")
    if event.get("type") != "USAGE" or not isinstance(data, dict):
        return None
    model, counts = data.get("model"), (data.get("prompt_tokens"), data.get("completion_tokens"))
    if not isinstance(model, str) or not all(isinstance(count, int) for count in counts):
        return None
    return usage_line(model, data)


def usage_line(model: str, usage: Mapping[str, Any]) -> str:
    """Return the tokens and the cost of an answer as one line."""
    about = "about " if usage.get("estimated") else ""
    line = f"{model}: {about}{usage['prompt_tokens']} + {usage['completion_tokens']} tokens"
    dollars = usage.get("cost_estimate")
    return f"{line}, ${dollars:.6f}" if isinstance(dollars, int | float) else line
