"""Which models of OpenAI reason. Pure."""

import re
from functools import lru_cache
from typing import Any, Literal

__all__ = ["reasoning_mode", "reasons"]

# Whether a model reasons, by the first matching prefix: always; by default, unless
# `reasoning_effort` is "none"; or only if `reasoning_effort` is set. While reasoning, models reject
# sampling parameters and stop sequences.
_REASONING: tuple[tuple[str, Literal["always", "default", "opt-in", "never"]], ...] = (
    ("gpt-6-astra", "always"),
    ("gpt-6.1-sol", "always"),
    ("gpt-6.1-terra", "default"),
    ("gpt-6-sol", "default"),
    ("gpt-6-luna", "default"),
    ("gpt-5.6", "default"),
    ("gpt-5.5-pro", "always"),
    ("gpt-5.5", "default"),
    ("gpt-5.4-pro", "always"),
    ("gpt-5.4", "opt-in"),
    ("gpt-5.3-chat", "always"),
    ("gpt-5.3", "opt-in"),
    ("gpt-5.2-pro", "always"),
    ("gpt-5.2-chat", "always"),
    ("gpt-5.2", "opt-in"),
    ("gpt-5.1-chat", "always"),
    ("gpt-5.1", "opt-in"),
    ("gpt-5-chat", "never"),
    ("gpt-5", "always"),
    ("o1", "always"),
    ("o3", "always"),
    ("o4", "always"),
)
_CODEX = re.compile(r"gpt-[0-9.]+-codex|codex-mini", re.ASCII)  # of any generation


def reasons(model: str, effort: Any) -> bool:
    """Return True if a model reasons in a call with this reasoning effort, None if none is set."""
    mode = reasoning_mode(model)
    if mode == "opt-in":
        return effort not in (None, "none")
    return mode == "always" or (mode == "default" and effort != "none")


@lru_cache(maxsize=256)
def reasoning_mode(model: str) -> str:
    """Return when a model reasons: "always", by "default", as an "opt-in", or "never"."""
    own_name = model.rpartition("/")[2]  # without the vendor prefix of gateways
    if _CODEX.match(own_name):
        return "always"
    return next((when for prefix, when in _REASONING if own_name.startswith(prefix)), "never")
