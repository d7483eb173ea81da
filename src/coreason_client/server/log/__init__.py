"""Where streams are kept: the contract of a log, and the logs that fulfil it."""

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
]
