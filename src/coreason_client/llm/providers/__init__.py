"""The wire formats, each in its own file, found through this table."""

from collections.abc import Mapping

from .._wire import Adapter
from .anthropic import ADAPTER as ANTHROPIC
from .gemini import ADAPTER as GEMINI
from .ollama import ADAPTER as OLLAMA
from .openai import ADAPTER as OPENAI

__all__ = ["ADAPTERS"]

ADAPTERS: Mapping[str, Adapter] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "ollama": OLLAMA,
}
