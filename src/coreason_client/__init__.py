"""Talk to agents and models without losing a word.

The names below are loaded when they are first used (PEP 562), so that importing one client does
not import what only another needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from coreason_manifest.definitions.service import ServiceRequest

    from .cap.aclient import AsyncCAPClient
    from .cap.client import CAPClient
    from .cap.errors import (
        CAPConnectionError,
        CAPError,
        CAPProtocolError,
        CAPRuntimeError,
        CAPStreamReset,
    )
    from .cap.position import Position
    from .cap.streams import AsyncChatStream, AsyncPacketStream, ChatStream, PacketStream
    from .errors import CoreasonError, MissingExtraError

_HOMES = {
    "AsyncCAPClient": ".cap.aclient",
    "AsyncChatStream": ".cap.streams",
    "AsyncPacketStream": ".cap.streams",
    "CAPClient": ".cap.client",
    "CAPConnectionError": ".cap.errors",
    "CAPError": ".cap.errors",
    "CAPProtocolError": ".cap.errors",
    "CAPRuntimeError": ".cap.errors",
    "CAPStreamReset": ".cap.errors",
    "ChatStream": ".cap.streams",
    "CoreasonError": ".errors",
    "MissingExtraError": ".errors",
    "PacketStream": ".cap.streams",
    "Position": ".cap.position",
    "ServiceRequest": "coreason_manifest.definitions.service",
}

__all__ = [
    "AsyncCAPClient",
    "AsyncChatStream",
    "AsyncPacketStream",
    "CAPClient",
    "CAPConnectionError",
    "CAPError",
    "CAPProtocolError",
    "CAPRuntimeError",
    "CAPStreamReset",
    "ChatStream",
    "CoreasonError",
    "MissingExtraError",
    "PacketStream",
    "Position",
    "ServiceRequest",
    "__version__",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
