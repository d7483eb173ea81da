"""The streams that the clients return."""

from ._streams_async import AsyncLLMStream
from ._streams_sync import LLMStream

__all__ = ["AsyncLLMStream", "LLMStream"]
