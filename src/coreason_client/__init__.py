"""Talk to agents and models without losing a word.

The names below are loaded when they are first used (PEP 562), so that importing one client does
not import what only another needs.
"""

from typing import TYPE_CHECKING

from ._lazy import lazy
from ._version import __version__

if TYPE_CHECKING:
    from coreason_manifest.definitions.service import ServiceRequest

    from .a2a import (
        A2AClient,
        A2AConnectionError,
        A2AEmptyResultError,
        A2AError,
        A2AHTTPError,
        A2AJSONError,
        A2AJSONRPCError,
        A2ANoSupportedInterfaceError,
        A2ASSEParseError,
        A2AStreamClosedError,
        AgentCard,
        AgentCardResolver,
        Artifact,
        AsyncA2AClient,
        AsyncAgentCardResolver,
        AsyncEventStream,
        AsyncJsonRpcTransport,
        AsyncRestTransport,
        AsyncTransport,
        ClientError,
        Event,
        EventStream,
        JsonRpcTransport,
        Message,
        Part,
        RestTransport,
        Task,
        TaskArtifactUpdateEvent,
        TaskState,
        TaskStatus,
        TaskStatusUpdateEvent,
        Transport,
    )
    from .cap.aclient import (
        AsyncCAPClient,
    )
    from .cap.client import (
        CAPClient,
    )
    from .cap.errors import (
        CAPConnectionError,
        CAPError,
        CAPProtocolError,
        CAPRuntimeError,
        CAPStreamReset,
    )
    from .cap.position import (
        Position,
    )
    from .cap.streams import (
        AsyncChatStream,
        AsyncPacketStream,
        ChatStream,
        PacketStream,
    )
    from .errors import (
        CoreasonError,
        MissingExtraError,
    )

# Where each name lives.
_NAMES = {
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
    ".cap.client": ("CAPClient",),
    ".cap.errors": (
        "CAPConnectionError",
        "CAPError",
        "CAPProtocolError",
        "CAPRuntimeError",
        "CAPStreamReset",
    ),
    ".cap.position": ("Position",),
    ".cap.streams": (
        "AsyncChatStream",
        "AsyncPacketStream",
        "ChatStream",
        "PacketStream",
    ),
    ".errors": (
        "CoreasonError",
        "MissingExtraError",
    ),
    "coreason_manifest.definitions.service": ("ServiceRequest",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
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
    "AsyncCAPClient",
    "AsyncChatStream",
    "AsyncEventStream",
    "AsyncJsonRpcTransport",
    "AsyncPacketStream",
    "AsyncRestTransport",
    "AsyncTransport",
    "CAPClient",
    "CAPConnectionError",
    "CAPError",
    "CAPProtocolError",
    "CAPRuntimeError",
    "CAPStreamReset",
    "ChatStream",
    "ClientError",
    "CoreasonError",
    "Event",
    "EventStream",
    "JsonRpcTransport",
    "Message",
    "MissingExtraError",
    "PacketStream",
    "Part",
    "Position",
    "RestTransport",
    "ServiceRequest",
    "Task",
    "TaskArtifactUpdateEvent",
    "TaskState",
    "TaskStatus",
    "TaskStatusUpdateEvent",
    "Transport",
    "__version__",
]

__getattr__, __dir__ = lazy(__name__, _HOMES, __all__)
