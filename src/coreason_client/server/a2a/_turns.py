"""The turns of a task, as its record keeps them. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from uuid import UUID

from pydantic_core import from_json, to_json

from ..log.tasks import TaskRecord
from ._states import WORKING

__all__ = [
    "JOIN_SECONDS",
    "TurnRef",
    "dump_turns",
    "may_join",
    "message_name",
    "seconds_of",
    "timestamp",
    "turns_of",
]

JOIN_SECONDS: Final = 60.0
"""For so long after the end of a turn, its message sent again is answered by the same turn."""


@dataclass(frozen=True, slots=True)
class TurnRef:
    """One turn: its stream, and the message that began it by its key."""

    stream_id: UUID
    request_id: UUID
    key: UUID
    opened: float


def dump_turns(turns: Sequence[TurnRef]) -> bytes:
    """Return turns as the `data` of a record."""
    rows = [[str(t.stream_id), str(t.request_id), str(t.key), t.opened] for t in turns]
    return to_json({"turns": rows})


def turns_of(record: TaskRecord) -> Sequence[TurnRef]:
    """Return the turns of a record, oldest first."""
    return _parse_turns(record.data)


@lru_cache(maxsize=256)  # a request needs them several times
def _parse_turns(data: bytes) -> tuple[TurnRef, ...]:
    rows = from_json(data)["turns"]
    return tuple(TurnRef(UUID(row[0]), UUID(row[1]), UUID(row[2]), row[3]) for row in rows)


def may_join(record: TaskRecord, key: UUID, now: float) -> bool:
    """Return True if a message that is sent again is answered by the last turn of a task."""
    last = turns_of(record)[-1]
    return last.key == key and (record.state == WORKING or now - record.changed <= JOIN_SECONDS)


def message_name(turn: int) -> str:
    """Return the name of the value with the message of a turn."""
    return f"message:{turn}"


def timestamp(seconds: float) -> str:
    """Return a time as the protocol writes it."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def seconds_of(moment: str) -> float:
    """Return the seconds of a time as the protocol writes it."""
    return datetime.fromisoformat(moment).timestamp()
