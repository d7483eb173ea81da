"""The adapters, one module per wire format, in a table."""

from collections.abc import Mapping

from .._adapter import Adapter
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
