"""Text for people: short, with readable times, tokens and costs. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def usage_event_line(event: Mapping[str, Any]) -> str | None:
    """Return the line for a USAGE event, or None for any other event."""
    data = event.get("data")
    if event.get("type") != "USAGE" or not isinstance(data, dict):
        return None
    model, counts = data.get("model"), (data.get("prompt_tokens"), data.get("completion_tokens"))
    if not all(isinstance(count, int) for count in counts):
        return None
    return usage_line(model if isinstance(model, str) else "", data)


def usage_line(model: str, usage: Mapping[str, Any]) -> str:
    """Return the tokens and the cost of an answer as one line."""
    about = (f"{model}: " if model else "") + ("about " if usage.get("estimated") else "")
    line = f"{about}{usage['prompt_tokens']} + {usage['completion_tokens']} tokens"
    dollars = usage.get("cost_estimate")
    return f"{line}, ${dollars:.6f}" if isinstance(dollars, int | float) else line


_MAX_WORDS = 200  # characters


def encodable(text: str) -> str:
    """Return an argument that JSON can encode, also if its bytes were not UTF-8."""
    return text.encode("utf-8", "replace").decode()


def shortened(text: str) -> str:
    """Return the beginning of a text as one line."""
    found = " ".join(text[:10_000].split())
    return found if len(found) <= _MAX_WORDS else f"{found[: _MAX_WORDS - 1]}…"


def as_local_time(timestamp: str) -> str:
    """Return a timestamp in local time, to the second; unchanged if it cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return timestamp
