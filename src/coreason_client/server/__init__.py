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
from .http._auth import create_ticket
from .log import DurableLog, MemoryStreamLog, SQLiteStreamLog, StreamLog
from .parts import Data, File, Link
from .process._listen import listen, listen_all, listen_unix
from .run import RunningServer, check_host, running, serve, serve_workers
from .steps import step
from .stream import AgentStream, AnsweredQuestion, Inbox, InboxMessage, Principal, Resumed
from .sync_stream import SyncAgentStream

if TYPE_CHECKING:
    from .a2a import A2A
    from .ag_ui import AGUI
    from .ai_sdk import AISDK
    from .group import AgentGroup
    from .log import PostgresStreamLog, ValkeyStreamLog
    from .openai import OpenAIAPI
    from .resumable import Resumable

__all__ = [
    "A2A",
    "AGUI",
    "AISDK",
    "AgentApp",
    "AgentGroup",
    "AgentStream",
    "AnsweredQuestion",
    "Data",
    "DurableLog",
    "Fenced",
    "File",
    "History",
    "Inbox",
    "InboxMessage",
    "Link",
    "LogError",
    "LogUnavailable",
    "MemoryStreamLog",
    "OpenAIAPI",
    "OutOfSequence",
    "PositionGone",
    "PostgresStreamLog",
    "Principal",
    "RequestConflict",
    "Resumable",
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
    "create_ticket",
    "listen",
    "listen_all",
    "listen_unix",
    "running",
    "serve",
    "serve_workers",
    "step",
]

# Loaded on first use (PEP 562): two need another extra, the others are needed by few programs.
_LAZY = {
    "PostgresStreamLog": ".log",
    "ValkeyStreamLog": ".log",
    "A2A": ".a2a",
    "AGUI": ".ag_ui",
    "AgentGroup": ".group",
    "AISDK": ".ai_sdk",
    "OpenAIAPI": ".openai",
    "Resumable": ".resumable",
}
__getattr__, __dir__ = lazy(__name__, _LAZY, __all__)
