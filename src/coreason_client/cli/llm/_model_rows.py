"""Models of a provider as rows. Pure."""

from collections.abc import Mapping
from typing import Any

__all__ = ["model_row"]


def model_row(
    model: Mapping[str, Any], provider: str | None, *, for_people: bool
) -> tuple[str, ...]:
    """Return the name that `--model` takes, the limits in tokens, and the name for people.

    `provider` is the argument of the command: if it is given, `--model` needs it as a prefix.
    """
    option = model["id"] if provider is None else f"{provider}/{model['id']}"
    window, output = model.get("context_window"), model.get("max_output_tokens")
    name = model.get("name", "")
    if not for_people:
        return option, str(window or ""), str(output or ""), name
    limits = f"{window:,} tokens" if window else ""
    return option, limits, "" if name == model["id"] else name, ""
