"""The AI client: every LLM provider, with one response format.

The names below are imported on first use (PEP 562).
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from ._batch import BatchResult as BatchResult
    from ._call import DEFAULT_MODEL as DEFAULT_MODEL
    from .aclient import AsyncLLMClient as AsyncLLMClient
    from .batches import AsyncBatch as AsyncBatch
    from .batches import Batch as Batch
    from .client import LLMClient as LLMClient
    from .credentials import AWSCredentials as AWSCredentials
    from .errors import LLMApprovalRequired as LLMApprovalRequired
    from .errors import LLMAuthenticationError as LLMAuthenticationError
    from .errors import LLMBudgetError as LLMBudgetError
    from .errors import LLMConnectionError as LLMConnectionError
    from .errors import LLMContextLengthError as LLMContextLengthError
    from .errors import LLMError as LLMError
    from .errors import LLMFilteredError as LLMFilteredError
    from .errors import LLMNotFoundError as LLMNotFoundError
    from .errors import LLMOverloadedError as LLMOverloadedError
    from .errors import LLMPermissionError as LLMPermissionError
    from .errors import LLMQuotaError as LLMQuotaError
    from .errors import LLMRateLimitError as LLMRateLimitError
    from .errors import LLMRequestError as LLMRequestError
    from .errors import LLMResponseError as LLMResponseError
    from .errors import LLMRunLimitError as LLMRunLimitError
    from .errors import LLMRunTimeoutError as LLMRunTimeoutError
    from .errors import LLMServerError as LLMServerError
    from .errors import LLMStateError as LLMStateError
    from .errors import LLMTimeoutError as LLMTimeoutError
    from .errors import LLMToolError as LLMToolError
    from .errors import ToolAbort as ToolAbort
    from .functions import count_tokens as count_tokens
    from .functions import count_tokens_sync as count_tokens_sync
    from .functions import embed as embed
    from .functions import embed_sync as embed_sync
    from .functions import generate as generate
    from .functions import generate_sync as generate_sync
    from .functions import models as models
    from .functions import models_sync as models_sync
    from .functions import run as run
    from .functions import run_stream as run_stream
    from .functions import run_stream_sync as run_stream_sync
    from .functions import run_sync as run_sync
    from .functions import stream as stream
    from .functions import stream_sync as stream_sync
    from .observe.hooks import RequestInfo as RequestInfo
    from .observe.hooks import ResponseInfo as ResponseInfo
    from .observe.telemetry import Telemetry as Telemetry
    from .router._state import MemoryState as MemoryState
    from .router._valkey import ValkeyState as ValkeyState
    from .router.budgets import Budget as Budget
    from .router.cache import ResponseCache as ResponseCache
    from .router.deployments import Deployment as Deployment
    from .router.deployments import Router as Router
    from .streams import AsyncLLMStream as AsyncLLMStream
    from .streams import LLMStream as LLMStream
    from .tools._run_async import AsyncRunStream as AsyncRunStream
    from .tools._run_machine import RunOptions as RunOptions
    from .tools._run_sync import RunStream as RunStream
    from .tools.events import Approval as Approval
    from .tools.events import RunEvent as RunEvent
    from .tools.events import RunFinished as RunFinished
    from .tools.events import RunResult as RunResult
    from .tools.events import ToolCallFinished as ToolCallFinished
    from .tools.events import ToolCallStarted as ToolCallStarted
    from .tools.events import TurnFinished as TurnFinished
    from .tools.mcp import MCPServer as MCPServer
    from .tools.tool import Tool as Tool
    from .types import BatchState as BatchState
    from .types import BatchStatus as BatchStatus
    from .types import Citation as Citation
    from .types import CitationDelta as CitationDelta
    from .types import Delta as Delta
    from .types import EmbeddingData as EmbeddingData
    from .types import EmbeddingResponse as EmbeddingResponse
    from .types import Finish as Finish
    from .types import FinishReason as FinishReason
    from .types import Media as Media
    from .types import Message as Message
    from .types import ModelInfo as ModelInfo
    from .types import OnBreak as OnBreak
    from .types import PartialData as PartialData
    from .types import PartialResponse as PartialResponse
    from .types import ProviderToolResult as ProviderToolResult
    from .types import ReasoningDelta as ReasoningDelta
    from .types import ReasoningEffort as ReasoningEffort
    from .types import Response as Response
    from .types import ResponseData as ResponseData
    from .types import Restarted as Restarted
    from .types import TextDelta as TextDelta
    from .types import TokenCount as TokenCount
    from .types import ToolCall as ToolCall
    from .types import ToolCallDelta as ToolCallDelta
    from .types import Usage as Usage
    from .types import UsageDelta as UsageDelta

_NAMES = {
    "._batch": ("BatchResult",),
    "._call": ("DEFAULT_MODEL",),
    ".aclient": ("AsyncLLMClient",),
    ".batches": ("AsyncBatch", "Batch"),
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
        "LLMApprovalRequired",
        "LLMToolError",
        "ToolAbort",
    ),
    ".functions": (
        "count_tokens",
        "count_tokens_sync",
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
    ".tools._run_async": ("AsyncRunStream",),
    ".tools._run_sync": ("RunStream",),
    ".tools.events": (
        "RunEvent",
        "RunFinished",
        "RunResult",
        "ToolCallFinished",
        "Approval",
        "ToolCallStarted",
        "TurnFinished",
    ),
    ".tools.mcp": ("MCPServer",),
    ".tools.tool": ("Tool",),
    ".types": (
        "BatchState",
        "BatchStatus",
        "Citation",
        "CitationDelta",
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
        "ProviderToolResult",
        "ReasoningDelta",
        "ReasoningEffort",
        "Response",
        "ResponseData",
        "Restarted",
        "TextDelta",
        "TokenCount",
        "ToolCall",
        "ToolCallDelta",
        "Usage",
        "UsageDelta",
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)

__getattr__, __dir__ = lazy(__name__, _MODULES, __all__)
