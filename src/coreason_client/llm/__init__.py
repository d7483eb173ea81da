"""The AI client: every LLM provider, with one response format.

The names below are imported on first use (PEP 562).
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .client import DEFAULT_MODEL, LLMClient, generate, generate_sync, stream
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
    from .streams import LLMStream
    from .types import (
        Delta,
        Finish,
        FinishReason,
        Media,
        Message,
        PartialData,
        PartialResponse,
        ReasoningDelta,
        Response,
        ResponseData,
        TextDelta,
        ToolCall,
        ToolCallDelta,
        Usage,
        UsageDelta,
    )

_NAMES = {
    ".client": ("DEFAULT_MODEL", "LLMClient", "generate", "generate_sync", "stream"),
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
    ".streams": ("LLMStream",),
    ".types": (
        "Delta",
        "Finish",
        "FinishReason",
        "Media",
        "Message",
        "PartialData",
        "PartialResponse",
        "ReasoningDelta",
        "Response",
        "ResponseData",
        "TextDelta",
        "ToolCall",
        "ToolCallDelta",
        "Usage",
        "UsageDelta",
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
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
    "PartialData",
    "PartialResponse",
    "ReasoningDelta",
    "Response",
    "ResponseData",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "Usage",
    "UsageDelta",
    "generate",
    "generate_sync",
    "stream",
]

__getattr__, __dir__ = lazy(__name__, _MODULES, __all__)
