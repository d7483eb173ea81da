"""Where streams are kept: the contract of a log, and the logs that fulfil it.

The one on Valkey is loaded when it is first used (PEP 562), for it needs an extra.
"""

from typing import TYPE_CHECKING

from ..._lazy import lazy
from .base import (
    Claim,
    Conversation,
    LeaseState,
    NewStream,
    Opened,
    Page,
    StreamLog,
    StreamMeta,
)
from .memory import MemoryStreamLog
from .sqlite import SQLiteStreamLog

if TYPE_CHECKING:
    from .valkey import ValkeyStreamLog

__all__ = [
    "Claim",
    "Conversation",
    "LeaseState",
    "MemoryStreamLog",
    "NewStream",
    "Opened",
    "Page",
    "SQLiteStreamLog",
    "StreamLog",
    "StreamMeta",
    "ValkeyStreamLog",
]

__getattr__, __dir__ = lazy(__name__, {"ValkeyStreamLog": ".valkey"}, __all__)
