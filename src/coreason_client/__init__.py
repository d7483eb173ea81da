"""Clients for agents (CAP, A2A) and for models; interrupted streams resume without lost data.

Each name below is imported when it is first used (PEP 562), because importing one client should
not import the dependencies of another.
"""

from typing import TYPE_CHECKING

from ._lazy import lazy
from ._version import __version__ as __version__

try:
    from coreason_manifest.definitions import DISTRIBUTION  # noqa: F401
except Exception as error:  # of any kind: it may come from the code of others
    raise ImportError(
        "coreason_manifest.definitions is not that of coreason-client: another distribution has "
        "replaced, removed or hidden it. Run `pip uninstall coreason_manifest`, then `pip install "
        "--force-reinstall --no-deps coreason-client`"
    ) from error

if TYPE_CHECKING:
    from coreason_manifest.definitions.service import ServiceRequest as ServiceRequest

    from ._secret import Secret as Secret
    from .a2a import A2AClient as A2AClient
    from .a2a import A2AConnectionError as A2AConnectionError
    from .a2a import A2AEmptyResultError as A2AEmptyResultError
    from .a2a import A2AError as A2AError
    from .a2a import A2AHTTPError as A2AHTTPError
    from .a2a import A2AJSONError as A2AJSONError
    from .a2a import A2AJSONRPCError as A2AJSONRPCError
    from .a2a import A2ANoSupportedInterfaceError as A2ANoSupportedInterfaceError
    from .a2a import A2ASSEParseError as A2ASSEParseError
    from .a2a import A2AStreamClosedError as A2AStreamClosedError
    from .a2a import AgentCard as AgentCard
    from .a2a import AgentCardResolver as AgentCardResolver
    from .a2a import Artifact as Artifact
    from .a2a import AsyncA2AClient as AsyncA2AClient
    from .a2a import AsyncAgentCardResolver as AsyncAgentCardResolver
    from .a2a import AsyncEventStream as AsyncEventStream
    from .a2a import AsyncJsonRpcTransport as AsyncJsonRpcTransport
    from .a2a import AsyncRestTransport as AsyncRestTransport
    from .a2a import AsyncTransport as AsyncTransport
    from .a2a import ClientError as ClientError
    from .a2a import Event as Event
    from .a2a import EventStream as EventStream
    from .a2a import JsonRpcTransport as JsonRpcTransport
    from .a2a import Message as Message
    from .a2a import Part as Part
    from .a2a import RestTransport as RestTransport
    from .a2a import Task as Task
    from .a2a import TaskArtifactUpdateEvent as TaskArtifactUpdateEvent
    from .a2a import TaskState as TaskState
    from .a2a import TaskStatus as TaskStatus
    from .a2a import TaskStatusUpdateEvent as TaskStatusUpdateEvent
    from .a2a import Transport as Transport
    from .cap.aclient import AsyncCAPClient as AsyncCAPClient
    from .cap.answer import Answer as Answer
    from .cap.answer import Rewound as Rewound
    from .cap.client import CAPClient as CAPClient
    from .cap.errors import CAPConnectionError as CAPConnectionError
    from .cap.errors import CAPError as CAPError
    from .cap.errors import CAPProtocolError as CAPProtocolError
    from .cap.errors import CAPRuntimeError as CAPRuntimeError
    from .cap.errors import CAPStreamReset as CAPStreamReset
    from .cap.errors import CAPTimeoutError as CAPTimeoutError
    from .cap.position import Bookmark as Bookmark
    from .cap.position import Position as Position
    from .cap.streams import AsyncChatStream as AsyncChatStream
    from .cap.streams import AsyncConversationStream as AsyncConversationStream
    from .cap.streams import AsyncPacketStream as AsyncPacketStream
    from .cap.streams import ChatStream as ChatStream
    from .cap.streams import ConversationStream as ConversationStream
    from .cap.streams import PacketStream as PacketStream
    from .errors import ArgumentError as ArgumentError
    from .errors import CoreasonError as CoreasonError
    from .errors import MissingExtraError as MissingExtraError
    from .llm import AsyncLLMClient as AsyncLLMClient
    from .llm import AsyncLLMStream as AsyncLLMStream
    from .llm import LLMApprovalRequired as LLMApprovalRequired
    from .llm import LLMAuthenticationError as LLMAuthenticationError
    from .llm import LLMBudgetError as LLMBudgetError
    from .llm import LLMClient as LLMClient
    from .llm import LLMConnectionError as LLMConnectionError
    from .llm import LLMContextLengthError as LLMContextLengthError
    from .llm import LLMError as LLMError
    from .llm import LLMFilteredError as LLMFilteredError
    from .llm import LLMNotFoundError as LLMNotFoundError
    from .llm import LLMOverloadedError as LLMOverloadedError
    from .llm import LLMPermissionError as LLMPermissionError
    from .llm import LLMQuotaError as LLMQuotaError
    from .llm import LLMRateLimitError as LLMRateLimitError
    from .llm import LLMRequestError as LLMRequestError
    from .llm import LLMResponseError as LLMResponseError
    from .llm import LLMRunLimitError as LLMRunLimitError
    from .llm import LLMRunTimeoutError as LLMRunTimeoutError
    from .llm import LLMServerError as LLMServerError
    from .llm import LLMStateError as LLMStateError
    from .llm import LLMStream as LLMStream
    from .llm import LLMTimeoutError as LLMTimeoutError
    from .llm import LLMToolError as LLMToolError
    from .llm import ToolAbort as ToolAbort
    from .llm import generate as generate
    from .llm import generate_sync as generate_sync
    from .llm import stream as stream
    from .llm import stream_sync as stream_sync

# The exported names, by the module that defines them.
_NAMES_BY_MODULE = {
    "._secret": ("Secret",),
    ".a2a": (
        "A2AClient",
        "A2AConnectionError",
        "A2AEmptyResultError",
        "A2AError",
        "A2AHTTPError",
        "A2AJSONError",
        "A2AJSONRPCError",
        "A2ANoSupportedInterfaceError",
        "A2ASSEParseError",
        "A2AStreamClosedError",
        "AgentCard",
        "AgentCardResolver",
        "Artifact",
        "AsyncA2AClient",
        "AsyncAgentCardResolver",
        "AsyncEventStream",
        "AsyncJsonRpcTransport",
        "AsyncRestTransport",
        "AsyncTransport",
        "ClientError",
        "Event",
        "EventStream",
        "JsonRpcTransport",
        "Message",
        "Part",
        "RestTransport",
        "Task",
        "TaskArtifactUpdateEvent",
        "TaskState",
        "TaskStatus",
        "TaskStatusUpdateEvent",
        "Transport",
    ),
    ".cap.aclient": ("AsyncCAPClient",),
    ".cap.answer": ("Answer", "Rewound"),
    ".cap.client": ("CAPClient",),
    ".cap.errors": (
        "CAPConnectionError",
        "CAPError",
        "CAPProtocolError",
        "CAPRuntimeError",
        "CAPStreamReset",
        "CAPTimeoutError",
    ),
    ".cap.position": ("Bookmark", "Position"),
    ".cap.streams": (
        "AsyncChatStream",
        "AsyncConversationStream",
        "AsyncPacketStream",
        "ChatStream",
        "ConversationStream",
        "PacketStream",
    ),
    ".errors": ("ArgumentError", "CoreasonError", "MissingExtraError"),
    ".llm": (
        "AsyncLLMClient",
        "AsyncLLMStream",
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
        "LLMServerError",
        "LLMStateError",
        "LLMStream",
        "LLMTimeoutError",
        "LLMRunLimitError",
        "LLMRunTimeoutError",
        "LLMApprovalRequired",
        "LLMToolError",
        "ToolAbort",
        "generate",
        "generate_sync",
        "stream",
        "stream_sync",
    ),
    "coreason_manifest.definitions.service": ("ServiceRequest",),
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = sorted([*_MODULES, "__version__"])

__getattr__, __dir__ = lazy(__name__, _MODULES, __all__)
