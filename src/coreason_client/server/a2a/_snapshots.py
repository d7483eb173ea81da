"""Snapshots of tasks, stored when a turn is over; they outlive the entries of the log. No I/O."""

from typing import Final, NamedTuple

from pydantic_core import from_json, to_json

from ..log.base import StreamMeta
from ._fold import JSON

__all__ = ["SNAPSHOT", "Snapshot", "shortened"]

SNAPSHOT: Final = "snapshot"
"""The name of the value with the snapshot of a task."""
_MAX_BYTES: Final = 1024 * 1024


class Snapshot(NamedTuple):
    """A task after so many turns.

    The last packet of the last one has the number `seq`, and was written in the epoch `epoch`; an
    earlier release stored none.
    """

    turns: int
    seq: int
    task: JSON
    epoch: int = 0

    def fits(self, meta: StreamMeta) -> bool:
        """Return True if a stream is the one that was read: a store may have lost its end."""
        same = (meta.last_seq, meta.epoch) == (self.seq, self.epoch) and meta.outcome is not None
        return same or not self.epoch

    def dump(self) -> bytes:
        """Return it as it is stored; without the artifacts if it is too large."""
        stored = to_json(self._asdict())
        if len(stored) <= _MAX_BYTES:
            return stored
        kept = {name: value for name, value in self.task.items() if name != "artifacts"}
        kept["metadata"] = {**self.task.get("metadata", {}), "truncated": True}
        return to_json({**self._asdict(), "task": kept})

    @classmethod
    def parse(cls, stored: bytes) -> "Snapshot":
        """Return a stored snapshot."""
        return cls(**from_json(stored))


def shortened(task: JSON, history: int | None, *, artifacts: bool) -> JSON:
    """Return a task with at most `history` messages, and without its artifacts if not wanted."""
    left = dict(task)
    if not artifacts:
        left.pop("artifacts", None)
    if history is not None:
        messages = left.pop("history", [])
        if history and messages:
            left["history"] = messages[-history:]
    return left
