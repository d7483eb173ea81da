"""The logs that store streams: in memory, in a SQLite file, on a Valkey or Postgres server.

`base` is the contract of a log, and `_rules` the part of it that several logs share. `_live` and
`_recent_entries` are used by several logs. `memory` has `_memory_store`. `sqlite` has `_schema`
(tables), `_sql` and `_sql_claims` (statements), `_staging` (storage format), `_file`, `_worker` and
`_backup`.
`valkey` and `postgres` are packages, and `remote` has what they share. They need extras, so they
are imported when they are first used (PEP 562).
"""

from typing import TYPE_CHECKING

from ..._lazy import lazy
from ._rules import new_epoch
from .base import (
    AgentVersion,
    Claim,
    Conversation,
    DurableLog,
    EpochStart,
    LeaseState,
    NewStream,
    Notes,
    Opened,
    Page,
    StreamLog,
    StreamMeta,
)
from .memory import MemoryStreamLog
from .sqlite import SQLiteStreamLog

if TYPE_CHECKING:
    from .postgres import PostgresStreamLog, upgrade_schema
    from .valkey import ValkeyStreamLog

__all__ = [
    "AgentVersion",
    "Claim",
    "Conversation",
    "DurableLog",
    "EpochStart",
    "LeaseState",
    "MemoryStreamLog",
    "NewStream",
    "Notes",
    "Opened",
    "Page",
    "PostgresStreamLog",
    "SQLiteStreamLog",
    "StreamLog",
    "StreamMeta",
    "ValkeyStreamLog",
    "new_epoch",
    "upgrade_schema",
]

_LAZY = {
    "PostgresStreamLog": ".postgres",
    "ValkeyStreamLog": ".valkey",
    "upgrade_schema": ".postgres",
}
__getattr__, __dir__ = lazy(__name__, _LAZY, __all__)
