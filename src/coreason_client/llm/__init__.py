"""The AI client: every LLM provider, with one response format.

The names below are imported on first use (PEP 562).
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from ._default_model import DEFAULT_MODEL
    from .aclient import AsyncLLMClient
    from .client import LLMClient
    from .errors import (
        LLMAuthenticationError,
        LLMConnectionError,
        LLMContextLengthError,
        LLMError,
        LLMFilteredError,
        LLMNotFoundError,
        LLMOverloadedError,
        LLMPermissionError,
        LLMQuotaError,
        LLMRateLimitError,
        LLMRequestError,
        LLMResponseError,
        LLMServerError,
        LLMTimeoutError,
    )
    from .functions import generate, generate_sync, stream, stream_sync
    from .streams import AsyncLLMStream, LLMStream
    from .types import (
        Delta,
        Finish,
        FinishReason,
        Media,
        Message,
        OnBreak,
        PartialData,
        PartialResponse,
        ReasoningDelta,
        Response,
        ResponseData,
        Restarted,
        TextDelta,
        ToolCall,
        ToolCallDelta,
        Usage,
        UsageDelta,
    )

_NAMES = {
    "._default_model": ("DEFAULT_MODEL",),
    ".aclient": ("AsyncLLMClient",),
    ".client": ("LLMClient",),
    ".errors": (
        "LLMAuthenticationError",
        "LLMConnectionError",
        "LLMContextLengthError",
        "LLMError",
        "LLMFilteredError",
        "LLMNotFoundError",
        "LLMOverloadedError",
        "LLMPermissionError",
        "LLMQuotaError",
        "LLMRateLimitError",
        "LLMRequestError",
        "LLMResponseError",
        "LLMServerError",
        "LLMTimeoutError",
    ),
    ".functions": ("generate", "generate_sync", "stream", "stream_sync"),
    ".streams": ("AsyncLLMStream", "LLMStream"),
    ".types": (
        "Delta",
        "Finish",
        "FinishReason",
        "Media",
        "Message",
        "OnBreak",
        "PartialData",
        "PartialResponse",
        "ReasoningDelta",
        "Response",
        "ResponseData",
        "Restarted",
        "TextDelta",
        "ToolCall",
        "ToolCallDelta",
        "Usage",
        "UsageDelta",
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [  # noqa: RUF022 - sorted like the names of the other packages
    "AsyncLLMClient",
    "AsyncLLMStream",
    "DEFAULT_MODEL",
    "Delta",
    "Finish",
    "FinishReason",
    "LLMAuthenticationError",
    "LLMClient",
    "LLMConnectionError",
    "LLMContextLengthError",
    "LLMError",
    "LLMFilteredError",
    "LLMNotFoundError",
    "LLMOverloadedError",
    "LLMPermissionError",
    "LLMQuotaError",
    "LLMRateLimitError",
    "LLMRequestError",
    "LLMResponseError",
    "LLMServerError",
    "LLMStream",
    "LLMTimeoutError",
    "Media",
    "Message",
    "OnBreak",
    "PartialData",
    "PartialResponse",
    "ReasoningDelta",
    "Response",
    "ResponseData",
    "Restarted",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "Usage",
    "UsageDelta",
    "generate",
    "generate_sync",
    "stream",
    "stream_sync",
]

__getattr__, __dir__ = lazy(__name__, _MODULES, __all__)
