"""The AI client: every LLM provider, with one response format.

The names below are imported on first use (PEP 562).
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from ._call import DEFAULT_MODEL
    from .aclient import AsyncLLMClient
    from .client import LLMClient
    from .credentials import AWSCredentials
    from .errors import (
        LLMAuthenticationError,
        LLMBudgetError,
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
        LLMRunLimitError,
        LLMRunTimeoutError,
        LLMServerError,
        LLMStateError,
        LLMTimeoutError,
        LLMToolError,
        ToolAbort,
    )
    from .functions import (
        embed,
        embed_sync,
        generate,
        generate_sync,
        models,
        models_sync,
        stream,
        stream_sync,
    )
    from .observe.hooks import RequestInfo, ResponseInfo
    from .observe.telemetry import Telemetry
    from .router._state import MemoryState
    from .router._valkey import ValkeyState
    from .router.budgets import Budget
    from .router.cache import ResponseCache
    from .router.deployments import Deployment, Router
    from .streams import AsyncLLMStream, LLMStream
    from .tools._run_machine import (
        RunOptions,
    )
    from .tools.events import (
        RunEvent,
        RunFinished,
        RunResult,
        ToolCallFinished,
        ToolCallStarted,
        TurnFinished,
    )
    from .tools.functions import (
        run,
        run_stream,
        run_stream_sync,
        run_sync,
    )
    from .tools.mcp import (
        MCPServer,
    )
    from .tools.run_streams import (
        AsyncRunStream,
        RunStream,
    )
    from .tools.tool import (
        Tool,
    )
    from .types import (
        Delta,
        EmbeddingData,
        EmbeddingResponse,
        Finish,
        FinishReason,
        Media,
        Message,
        ModelInfo,
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
    "._call": ("DEFAULT_MODEL",),
    ".aclient": ("AsyncLLMClient",),
    ".client": ("LLMClient",),
    ".credentials": ("AWSCredentials",),
    ".errors": (
        "LLMAuthenticationError",
        "LLMBudgetError",
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
        "LLMStateError",
        "LLMTimeoutError",
        "LLMRunLimitError",
        "LLMRunTimeoutError",
        "LLMToolError",
        "ToolAbort",
    ),
    ".functions": (
        "embed",
        "embed_sync",
        "generate",
        "generate_sync",
        "models",
        "models_sync",
        "stream",
        "stream_sync",
    ),
    ".observe.hooks": ("RequestInfo", "ResponseInfo"),
    ".observe.telemetry": ("Telemetry",),
    ".router._state": ("MemoryState",),
    ".router._valkey": ("ValkeyState",),
    ".router.budgets": ("Budget",),
    ".router.cache": ("ResponseCache",),
    ".router.deployments": ("Deployment", "Router"),
    ".streams": ("AsyncLLMStream", "LLMStream"),
    ".tools._run_machine": ("RunOptions",),
    ".tools.events": (
        "RunEvent",
        "RunFinished",
        "RunResult",
        "ToolCallFinished",
        "ToolCallStarted",
        "TurnFinished",
    ),
    ".tools.functions": (
        "run",
        "run_stream",
        "run_stream_sync",
        "run_sync",
    ),
    ".tools.mcp": ("MCPServer",),
    ".tools.run_streams": (
        "AsyncRunStream",
        "RunStream",
    ),
    ".tools.tool": ("Tool",),
    ".types": (
        "Delta",
        "EmbeddingData",
        "EmbeddingResponse",
        "Finish",
        "FinishReason",
        "Media",
        "Message",
        "ModelInfo",
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
    "AWSCredentials",
    "AsyncLLMClient",
    "AsyncLLMStream",
    "AsyncRunStream",
    "Budget",
    "DEFAULT_MODEL",
    "Delta",
    "Deployment",
    "EmbeddingData",
    "EmbeddingResponse",
    "Finish",
    "FinishReason",
    "LLMAuthenticationError",
    "LLMBudgetError",
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
    "LLMRunLimitError",
    "LLMRunTimeoutError",
    "LLMServerError",
    "LLMStateError",
    "LLMStream",
    "LLMTimeoutError",
    "LLMToolError",
    "MCPServer",
    "Media",
    "MemoryState",
    "Message",
    "ModelInfo",
    "OnBreak",
    "PartialData",
    "PartialResponse",
    "ReasoningDelta",
    "RequestInfo",
    "Response",
    "ResponseCache",
    "ResponseData",
    "ResponseInfo",
    "Restarted",
    "Router",
    "RunEvent",
    "RunFinished",
    "RunOptions",
    "RunResult",
    "RunStream",
    "Telemetry",
    "TextDelta",
    "Tool",
    "ToolAbort",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallFinished",
    "ToolCallStarted",
    "TurnFinished",
    "Usage",
    "UsageDelta",
    "ValkeyState",
    "embed",
    "embed_sync",
    "generate",
    "generate_sync",
    "models",
    "models_sync",
    "run",
    "run_stream",
    "run_stream_sync",
    "run_sync",
    "stream",
    "stream_sync",
]

__getattr__, __dir__ = lazy(__name__, _MODULES, __all__)
