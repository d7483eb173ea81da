"""Serve an agent: what it writes is logged first and then delivered, so every stream can resume."""

from ..errors import MissingExtraError

try:
    import starlette as _starlette  # noqa: F401
except ImportError:
    raise MissingExtraError("coreason_client.server", "server") from None

from .app import AgentApp
from .errors import (
    Fenced,
    LogError,
    LogUnavailable,
    OutOfSequence,
    PositionGone,
    RequestConflict,
    StreamEnded,
    UnknownStream,
)
from .log import MemoryStreamLog, SQLiteStreamLog, StreamLog
from .run import RunningServer, check_host, running, serve
from .stream import AgentStream

__all__ = [
    "AgentApp",
    "AgentStream",
    "Fenced",
    "LogError",
    "LogUnavailable",
    "MemoryStreamLog",
    "OutOfSequence",
    "PositionGone",
    "RequestConflict",
    "RunningServer",
    "SQLiteStreamLog",
    "StreamEnded",
    "StreamLog",
    "UnknownStream",
    "check_host",
    "running",
    "serve",
]
