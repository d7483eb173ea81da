"""The turns of a task, as its record keeps them. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from pydantic_core import from_json, to_json

from ..log.tasks import TaskRecord
from ._protocol import WORKING

JOIN_SECONDS: Final = 60.0
"""For so long after the end of a turn, its message sent again is answered by the same turn."""


@dataclass(frozen=True, slots=True)
class TurnRef:
    """One turn: its stream, and the message that began it by its key."""

    stream_id: UUID
    request_id: UUID
    key: UUID
    opened: float


def dump_turns(turns: Sequence[TurnRef], *, announced: bool = False) -> bytes:
    """Return turns as the `data` of a record.

    A task is `announced` if a client knows it, so that it stays one even if a message answers it.
    """
    rows = [[str(t.stream_id), str(t.request_id), str(t.key), t.opened] for t in turns]
    return to_json({"turns": rows, "announced": announced})


def turns_of(record: TaskRecord) -> Sequence[TurnRef]:
    """Return the turns of a record, oldest first."""
    return _parse_turns(record.data)[0]


def is_announced(record: TaskRecord) -> bool:
    """Return True if a client knows the task."""
    return _parse_turns(record.data)[1]


@lru_cache(maxsize=256)  # a request needs them several times
def _parse_turns(data: bytes) -> tuple[tuple[TurnRef, ...], bool]:
    stored = from_json(data)
    turns = (TurnRef(UUID(row[0]), UUID(row[1]), UUID(row[2]), row[3]) for row in stored["turns"])
    return tuple(turns), bool(stored.get("announced"))


def may_join(record: TaskRecord, key: UUID, now: float) -> bool:
    """Return True if a message that is sent again is answered by the turn that it has begun.

    A turn is over when the next one begins.
    """
    turns = turns_of(record)
    for turn, following in zip(turns, (*turns[1:], None), strict=True):
        if turn.key == key:
            over = record.changed if following is None else following.opened
            running = following is None and record.state == WORKING
            if running or now - over <= JOIN_SECONDS:
                return True
    return False


class TurnQuestion(NamedTuple):
    """The task of a turn, as the question of its stream names it, before the request.

    `started` is True once the agent was started, and not used for a durable agent. `agent_id` is
    that of the agent. The turn of a cancellation has no request.
    """

    task_id: UUID
    agent_id: str
    started: bool = False

    def dump(self, request: bytes) -> bytes:
        """Return the question; `request` is a JSON object with at least one member."""
        return b"%b%b,%b" % (
            _TASK,
            to_json([self.task_id, self.agent_id, self.started]),
            request[1:],
        )


_TASK: Final = b'{"task":'


def parse_turn_question(question: bytes) -> tuple[TurnQuestion, dict[str, Any]] | None:
    """Return what a question says about its task and all that it says, None for other streams."""
    if not question.startswith(_TASK):
        return None
    stored = from_json(question)
    task_id, agent_id, started = stored["task"]
    return TurnQuestion(UUID(task_id), agent_id, started), stored


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
