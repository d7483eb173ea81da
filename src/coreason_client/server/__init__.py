"""Serves an agent: packets are logged before they are delivered, so every stream can resume."""

from typing import TYPE_CHECKING

from .._lazy import lazy
from ..errors import MissingExtraError

try:
    import starlette as _starlette  # noqa: F401
except ImportError:
    raise MissingExtraError("coreason_client.server", "server") from None

from coreason_manifest.definitions.service import ServiceRequest

from .app import AgentApp
from .engine._conversation import History, Turn
from .errors import (
    Fenced,
    LogError,
    LogUnavailable,
    OutOfSequence,
    PositionGone,
    RequestConflict,
    StepFailed,
    StreamCancelled,
    StreamEnded,
    UnknownStream,
)
from .log import DurableLog, MemoryStreamLog, SQLiteStreamLog, StreamLog
from .process._listen import listen, listen_all
from .run import RunningServer, check_host, running, serve, serve_workers
from .steps import step
from .stream import AgentStream, Resumed
from .sync_stream import SyncAgentStream

if TYPE_CHECKING:
    from .log import ValkeyStreamLog

__all__ = [
    "AgentApp",
    "AgentStream",
    "DurableLog",
    "Fenced",
    "History",
    "LogError",
    "LogUnavailable",
    "MemoryStreamLog",
    "OutOfSequence",
    "PositionGone",
    "RequestConflict",
    "Resumed",
    "RunningServer",
    "SQLiteStreamLog",
    "ServiceRequest",
    "StepFailed",
    "StreamCancelled",
    "StreamEnded",
    "StreamLog",
    "SyncAgentStream",
    "Turn",
    "UnknownStream",
    "ValkeyStreamLog",
    "check_host",
    "listen",
    "listen_all",
    "running",
    "serve",
    "serve_workers",
    "step",
]

# It needs another extra, so it is loaded on first use (PEP 562).
__getattr__, __dir__ = lazy(__name__, {"ValkeyStreamLog": ".log"}, __all__)
