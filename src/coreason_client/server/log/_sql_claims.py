"""The statements of the SQLite log that change the producer of a stream, and read its journal."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from ..errors import Fenced, UnknownStream
from ._rules import begin_epoch, may_claim_durable, new_epoch
from ._sql import LogConnection, last_note, last_seq, parse_epochs
from .base import PAGE_BYTES, UNCLAIMED_SECONDS, AgentVersion, Claim

_COLUMNS = "n, stream_id, epoch, last_seq, lease_until, agent_id, version, epoch_starts"


def claim_lost(db: LogConnection, now: float, until: float, limit: int) -> list[Claim]:
    """Take over streams whose lease ran out; durable ones only if no process continued them."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM streams WHERE outcome IS NULL AND lease_until <= ?"  # noqa: S608
        " AND (agent_id IS NULL OR lease_until <= ?) LIMIT ?",
        (now, now - UNCLAIMED_SECONDS, limit),
    ).fetchall()
    return [_claim(db, row, until) for row in rows]


def claim_durable(
    db: LogConnection, agent: AgentVersion, now: float, lease: float, limit: int
) -> list[Claim]:
    """Take over durable streams of an agent whose lease ran out."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM streams WHERE outcome IS NULL AND lease_until <= ?"  # noqa: S608
        " AND agent_id = ? ORDER BY lease_until",
        (now, agent.agent_id),
    ).fetchall()
    due = [
        row
        for row in rows
        if may_claim_durable(now, lease, row[4], AgentVersion(row[5], row[6]), agent)
    ]
    return [_claim(db, row, now + lease) for row in due[:limit]]


def claim_held(db: LogConnection, stream_id: UUID, epoch: int, until: float) -> Claim:
    """Begin the next epoch of a stream for the process that holds it with this epoch.

    Raises:
        Fenced: the epoch is over, or the stream has ended.
        UnknownStream: there is no such stream.
    """
    row = _held_row(db, stream_id)
    if row[2] != epoch or row[-1] is not None:
        raise Fenced(stream_id, epoch)
    return _claim(db, row, until)


def release(db: LogConnection, stream_id: UUID, epoch: int, now: float) -> None:
    """End the epoch and the lease of a durable stream.

    Raises:
        Fenced: the epoch is over, or the stream has ended.
        UnknownStream: there is no such stream.
    """
    *row, released, outcome = _held_row(db, stream_id)
    if outcome is None and released == epoch:
        return
    if row[2] != epoch or outcome is not None:
        raise Fenced(stream_id, epoch)
    _begin_epoch(db, row, now, released=epoch)


def _held_row(db: LogConnection, stream_id: UUID) -> tuple[Any, ...]:
    """Return the columns of a claim, the epoch that released the stream, and the outcome."""
    row: tuple[Any, ...] | None = db.execute(
        f"SELECT {_COLUMNS}, released, outcome FROM streams WHERE stream_id = ?",  # noqa: S608
        (stream_id.bytes,),
    ).fetchone()
    if row is None:
        raise UnknownStream(stream_id)
    return row


def _claim(db: LogConnection, row: Sequence[Any], until: float) -> Claim:
    claim = _begin_epoch(db, row, until)
    question = db.execute("SELECT question FROM questions WHERE n = ?", (row[0],)).fetchone()
    return claim if question is None else replace(claim, question=bytes(question[0]))


def _begin_epoch(
    db: LogConnection, row: Sequence[Any], lease_until: float, released: int | None = None
) -> Claim:
    n, id_, moved, epoch_starts = row[0], row[1], row[3], row[7]
    stream_id = UUID(bytes=id_)
    db.states.pop(stream_id, None)
    last = last_seq(db, stream_id, moved)
    epochs = begin_epoch(parse_epochs(epoch_starts), last, new_epoch())
    db.execute(
        "UPDATE streams SET epoch = ?, lease_until = ?, claimed_seq = ?, claimed_note = ?,"
        " epoch_starts = ?, released = ? WHERE n = ?",
        (
            epochs[-1].epoch,
            lease_until,
            last,
            last_note(db, n),
            " ".join(f"{first}:{number}" for first, number in epochs),
            released,
            n,
        ),
    )
    return Claim(stream_id, epochs[-1].epoch, last)


def journal(db: LogConnection, stream_id: UUID, after: int) -> list[bytes]:
    """Return the notes of a stream after a number, up to the size of a page.

    Raises:
        UnknownStream: there is no such stream.
    """
    row = db.execute("SELECT n FROM streams WHERE stream_id = ?", (stream_id.bytes,)).fetchone()
    if row is None:
        raise UnknownStream(stream_id)
    notes: list[bytes] = []
    size = 0
    for (note,) in db.execute(
        "SELECT note FROM notes WHERE n = ? AND number > ? ORDER BY number", (row[0], after)
    ):
        notes.append(note)
        size += len(note)
        if size > PAGE_BYTES:
            break
    return notes
