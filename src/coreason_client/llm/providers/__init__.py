"""The adapters, one module per wire format, in a table."""

from collections.abc import Mapping

from .._adapter import Adapter
from .anthropic import ADAPTER as ANTHROPIC
from .bedrock import ADAPTER as BEDROCK
from .gemini import ADAPTER as GEMINI
from .gemini import VERTEX
from .ollama import ADAPTER as OLLAMA
from .openai import ADAPTER as OPENAI
from .responses import ADAPTER as RESPONSES

__all__ = ["ADAPTERS"]

ADAPTERS: Mapping[str, Adapter] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "vertex": VERTEX,
    "ollama": OLLAMA,
    "responses": RESPONSES,
    "bedrock": BEDROCK,
}
