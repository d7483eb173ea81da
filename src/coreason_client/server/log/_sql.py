"""The statements of the SQLite log; the worker runs them in its transactions."""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any
from uuid import UUID

from ..errors import Fenced, LogUnavailable, RequestConflict, UnknownStream
from ._rules import (
    are_notes_repeated,
    begin_epoch,
    count_latest_turns,
    is_repeated,
    make_page,
    new_meta,
    take_page,
)
from ._schema import insert_runs
from ._staging import StagedEntries, unpack_run
from .base import (
    MAX_TURN_BYTES,
    MAX_TURNS,
    AgentVersion,
    Conversation,
    EpochStart,
    LeaseState,
    NewStream,
    Notes,
    Opened,
    Page,
    StreamMeta,
)

# Values of `body_gone`. In both cases readers cannot read any entry of the stream.
_GONE, _BEING_DROPPED = 1, 2
_BYTES_PER_ROW = 32_768  # bytes that one step drops for each stream that it may look at
_MAX_RUNS = 1000  # runs of one stream that one step drops
_META = (
    "stream_id, principal, request_id, fingerprint, epoch, last_seq, opened_at, outcome, ended_at,"
    " cancel_requested, body_gone, agent_id, version, epoch_starts"
)


def parse_epochs(stored: str) -> tuple[EpochStart, ...]:
    """Parse the column `epoch_starts`.

    It has the first number and the epoch of each later epoch, with a colon between them. An earlier
    release wrote the first number only, and counted the epochs.
    """
    epochs: tuple[EpochStart, ...] = ()
    for word in stored.split():
        first, _, epoch = word.partition(":")
        epochs = begin_epoch(epochs, int(first) - 1, int(epoch or 0))
    return epochs


class _StreamState:
    """The state of a stream that an append checks."""

    __slots__ = (
        "cancel_requested",
        "claimed_note",
        "claimed_seq",
        "ended",
        "epoch",
        "last_note",
        "last_seq",
        "n",
    )

    def __init__(self, meta: StreamMeta, n: int, last_note: int, claimed: tuple[int, int]) -> None:
        self.n = n
        self.epoch = meta.epoch
        self.last_seq = meta.last_seq
        self.last_note = last_note
        self.claimed_seq, self.claimed_note = claimed
        self.ended = meta.outcome is not None
        self.cancel_requested = meta.cancel_requested


class LogConnection(sqlite3.Connection):
    """A connection to a log, with a cache of what it has written.

    No other process writes the file, so the cache is valid until a transaction is rolled back.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.staged = StagedEntries()
        self.states: dict[UUID, _StreamState] = {}  # of running streams
        self.stale = True  # both must be loaded before they are used


def _meta(db: LogConnection, row: tuple[Any, ...]) -> StreamMeta:
    stream_id = UUID(bytes=row[0])
    return StreamMeta(
        stream_id=stream_id,
        principal=row[1],
        request_id=UUID(bytes=row[2]),
        fingerprint=row[3],
        epoch=row[4],
        last_seq=last_seq(db, stream_id, row[5]),
        opened_at=row[6],
        outcome=row[7],
        ended_at=row[8],
        cancel_requested=bool(row[9]),
        body_gone=bool(row[10]),
        agent=None if row[11] is None else AgentVersion(row[11], row[12]),
        epochs=parse_epochs(row[13]),
    )


def load_meta(db: LogConnection, stream_id: UUID) -> StreamMeta:
    """Return the description of a stream.

    Raises:
        UnknownStream: there is no such stream.
    """
    row = db.execute(
        f"SELECT {_META} FROM streams WHERE stream_id = ?",  # noqa: S608
        (stream_id.bytes,),
    ).fetchone()
    if row is None:
        raise UnknownStream(stream_id)
    return _meta(db, row)


def find_meta(db: LogConnection, principal: str, request_id: UUID) -> StreamMeta | None:
    """Return the description of the stream of a request, None if there is none."""
    row = db.execute(
        f"SELECT {_META} FROM streams WHERE principal = ? AND request_id = ?",  # noqa: S608
        (principal, request_id.bytes),
    ).fetchone()
    return None if row is None else _meta(db, row)


def open_stream(
    db: LogConnection, stream: NewStream, now: float, lease_until: float, replaces: UUID | None
) -> Opened:
    """Return the stream of a request; create it if there is none, or only the replaced one.

    Raises:
        RequestConflict: the request is known with another fingerprint.
    """
    if replaces is not None:  # no request has the id of a stream
        db.execute(
            "UPDATE streams SET request_id = stream_id WHERE stream_id = ? AND principal = ?"
            " AND request_id = ?",
            (replaces.bytes, stream.principal, stream.request_id.bytes),
        )
    if (created := _add_stream(db, stream, now, lease_until)) is not None:
        return Opened(created, created=True)
    known = find_meta(db, stream.principal, stream.request_id)
    assert known is not None  # noqa: S101 - otherwise the stream would be new
    if known.fingerprint != stream.fingerprint:
        raise RequestConflict(stream.request_id)
    return Opened(known, created=False)


def _add_stream(
    db: LogConnection, stream: NewStream, now: float, lease_until: float
) -> StreamMeta | None:
    """Add a new stream and return its description, None if the request already has a stream."""
    agent = stream.agent
    added = db.execute(
        "INSERT INTO streams (stream_id, principal, request_id, fingerprint, epoch,"
        " last_seq, opened_at, cancel_requested, body_gone, lease_until, agent_id, version)"
        " VALUES (?, ?, ?, ?, 1, 0, ?, 0, 0, ?, ?, ?) ON CONFLICT (principal, request_id)"
        " DO NOTHING",
        (
            stream.stream_id.bytes,
            stream.principal,
            stream.request_id.bytes,
            stream.fingerprint,
            now,
            lease_until,
            None if agent is None else agent.agent_id,
            None if agent is None else agent.version,
        ),
    )
    if not added.rowcount:
        return None
    meta, n = new_meta(stream, now), added.lastrowid
    assert n is not None  # noqa: S101 - an INSERT sets it
    if stream.question:
        db.execute("INSERT INTO questions (n, question) VALUES (?, ?)", (n, stream.question))
    db.states[stream.stream_id] = _StreamState(meta, n, 0, (0, 0))
    return meta


def change_question(db: LogConnection, stream_id: UUID, epoch: int, question: bytes) -> None:
    """Replace the question of a running stream that is held with this epoch.

    Raises:
        Fenced: the epoch is over, or the stream has ended.
        UnknownStream: there is no such stream.
    """
    state = db.states.get(stream_id) or _load_state(db, stream_id)
    if state.epoch != epoch or state.ended:
        raise Fenced(stream_id, epoch)
    db.execute("UPDATE questions SET question = ? WHERE n = ?", (question, state.n))


def last_seq(db: LogConnection, stream_id: UUID, moved: int) -> int:
    """Return the number of the last entry; `moved` does not count staged entries."""
    return max(moved, db.staged.last_seq(stream_id) or 0)


def last_note(db: LogConnection, n: int) -> int:
    """Return the number of the last note in the journal of a stream, 0 if there is none."""
    (last,) = db.execute("SELECT MAX(number) FROM notes WHERE n = ?", (n,)).fetchone()
    return last or 0


def append(
    db: LogConnection,
    stream_id: UUID,
    epoch: int,
    first_seq: int,
    entries: Sequence[bytes],
    notes: Notes | None = None,
) -> tuple[bool, bool]:
    """Append; return whether the entries are new, and whether a cancel was requested."""
    state = db.states.get(stream_id) or _load_state(db, stream_id)
    repeated = is_repeated(
        stream_id,
        epoch,
        first_seq,
        len(entries),
        current_epoch=state.epoch,
        last_seq=state.last_seq,
        ended=state.ended,
        claimed_seq=state.claimed_seq,
    )
    if notes is not None:
        _add_notes(db, stream_id, state, notes)
    if repeated or not entries:
        return False, state.cancel_requested
    db.staged.add(stream_id, first_seq, entries)
    state.last_seq += len(entries)
    return True, state.cancel_requested


def _add_notes(db: LogConnection, stream_id: UUID, state: _StreamState, notes: Notes) -> None:
    if not are_notes_repeated(
        stream_id,
        notes,
        last_note=state.last_note,
        claimed_note=state.claimed_note,
        last_seq=state.last_seq,
    ):
        db.executemany(
            "INSERT INTO notes (n, number, note) VALUES (?, ?, ?)",
            ((state.n, number, note) for number, note in enumerate(notes.notes, notes.first)),
        )
        state.last_note += len(notes.notes)


def _load_state(db: LogConnection, stream_id: UUID) -> _StreamState:
    meta = load_meta(db, stream_id)
    n, *claimed = db.execute(
        "SELECT n, claimed_seq, claimed_note FROM streams WHERE stream_id = ?", (stream_id.bytes,)
    ).fetchone()
    state = _StreamState(meta, n, last_note(db, n), (claimed[0], claimed[1]))
    if not state.ended:  # no append follows the end of a stream
        db.states[stream_id] = state
    return state


def write_staged(db: LogConnection) -> None:
    """Write the appends of the transaction as one record."""
    if record := db.staged.take_record():
        db.execute("INSERT INTO staged (record) VALUES (?)", (record,))


def load_staged(db: LogConnection) -> None:
    """Load the staged entries, after a start or a rollback."""
    db.states.clear()
    db.staged.load(record for (record,) in db.execute("SELECT record FROM staged ORDER BY id"))
    for stream_id, _, _ in list(db.staged):
        row = db.execute(
            "SELECT body_gone FROM streams WHERE stream_id = ?", (stream_id.bytes,)
        ).fetchone()
        if row is None or row[0]:  # the entries have expired
            db.staged.drop(stream_id)
    db.stale = False


def move_staged(db: LogConnection) -> None:
    """Move the staged entries to the runs of their streams; clear `db.staged` after the commit."""
    db.execute("DELETE FROM staged")  # first, so that the runs can use the freed pages
    for stream_id, first_seq, entries in db.staged:
        (n,) = db.execute(
            "UPDATE streams SET last_seq = ? WHERE stream_id = ? RETURNING n",
            (first_seq + len(entries) - 1, stream_id.bytes),
        ).fetchone()
        insert_runs(db, n, first_seq, entries)


def read_page(
    db: LogConnection, stream_id: UUID, after_seq: int, after_epoch: int, limit: int
) -> Page:
    """Return up to `limit` entries after a position.

    Raises:
        PositionGone: the entries that follow the position, or the one at it, are gone.
        UnknownStream: there is no such stream.
        LogUnavailable: its stored entries are damaged.
    """
    row = db.execute(
        "SELECT n, last_seq, outcome, body_gone, epoch_starts FROM streams WHERE stream_id = ?",
        (stream_id.bytes,),
    ).fetchone()
    if row is None:
        raise UnknownStream(stream_id)
    n, moved, outcome, body_gone, epoch_starts = row
    staged = db.staged.after(stream_id, after_seq)
    try:
        entries = take_page(islice(chain(_moved_entries(db, n, after_seq), staged), limit))
    except ValueError as error:
        raise LogUnavailable(
            f"the entries of the stream {stream_id} after {after_seq} are damaged in the file "
            f"({error}): restore the file from a backup; other streams can be read",
            stream_id,
        ) from None
    return make_page(
        stream_id,
        after_seq,
        after_epoch,
        entries,
        last_seq=last_seq(db, stream_id, moved),
        epochs=parse_epochs(epoch_starts),
        ended=outcome is not None,
        body_gone=bool(body_gone),
    )


def _moved_entries(db: LogConnection, n: int, after_seq: int) -> Iterator[bytes]:
    """Yield the entries of a stream after a position that are stored in runs."""
    runs = db.execute(
        "SELECT first_seq, run FROM runs WHERE n = ? AND first_seq >= COALESCE((SELECT"
        " MAX(first_seq) FROM runs WHERE n = ? AND first_seq <= ?), 0) ORDER BY first_seq",
        (n, n, after_seq + 1),
    )
    for first_seq, run in runs:
        yield from islice(unpack_run(run), max(after_seq + 1 - first_seq, 0), None)


def renew(db: LogConnection, stream_id: UUID, epoch: int, until: float) -> LeaseState:
    """Renew the lease of a stream that is held with this epoch."""
    row = db.execute(
        "UPDATE streams SET lease_until = ? WHERE stream_id = ? AND epoch = ? AND outcome IS NULL"
        " RETURNING cancel_requested",
        (until, stream_id.bytes, epoch),
    ).fetchone()
    if row is None:
        return LeaseState.LOST
    return LeaseState.CANCEL_REQUESTED if row[0] else LeaseState.HELD


def request_cancel(db: LogConnection, stream_id: UUID) -> None:
    """Record a request to cancel a stream."""
    db.states.pop(stream_id, None)
    db.execute(
        "UPDATE streams SET cancel_requested = 1 WHERE stream_id = ?",
        (stream_id.bytes,),
    )


def end_stream(db: LogConnection, stream_id: UUID, last_seq: int, outcome: str, now: float) -> None:
    """End a stream after its last entry; drop its question and its journal."""
    state = db.states.pop(stream_id, None)
    (n,) = db.execute(
        "UPDATE streams SET last_seq = ?, outcome = ?, ended_at = ? WHERE stream_id = ?"
        " RETURNING n",
        (last_seq, outcome, now, stream_id.bytes),
    ).fetchone()
    db.execute("DELETE FROM questions WHERE n = ?", (n,))
    if state is None or state.last_note:
        db.execute("DELETE FROM notes WHERE n = ?", (n,))


def add_turn(
    db: LogConnection,
    conversation: Conversation,
    stream_id: UUID,
    turn: bytes,
    epoch: int,
    now: float,
) -> None:
    """Add a turn, and drop the oldest ones that exceed the limits of a conversation."""
    key = (conversation.principal, conversation.session_id)
    db.execute(
        "INSERT INTO turns (principal, session_id, stream_id, turn, added_at, epoch)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET turn = excluded.turn,"
        " added_at = excluded.added_at, epoch = excluded.epoch WHERE epoch < excluded.epoch",
        (*key, stream_id.bytes, turn, now, epoch),
    )
    count, size = db.execute(
        "SELECT COUNT(*), SUM(LENGTH(turn)) FROM turns WHERE principal = ? AND session_id = ?",
        key,
    ).fetchone()
    if count > MAX_TURNS or size > MAX_TURN_BYTES:
        sizes = _turn_sizes(db, conversation)
        kept = count_latest_turns((size for _, size in sizes), MAX_TURNS, MAX_TURN_BYTES)
        db.executemany("DELETE FROM turns WHERE id = ?", [(id_,) for id_, _ in sizes[kept:]])


def turns(db: LogConnection, conversation: Conversation, limit: int) -> list[bytes]:
    """Return the latest turns of a conversation, oldest first."""
    sizes = _turn_sizes(db, conversation)
    max_turns = max(0, min(limit, MAX_TURNS))
    count = count_latest_turns((size for _, size in sizes), max_turns, MAX_TURN_BYTES)
    ids = reversed([id_ for id_, _ in sizes[:count]])
    return [db.execute("SELECT turn FROM turns WHERE id = ?", (id_,)).fetchone()[0] for id_ in ids]


def _turn_sizes(db: LogConnection, conversation: Conversation) -> list[tuple[int, int]]:
    """Return the ids and sizes of the turns of a conversation, newest first."""
    return db.execute(
        "SELECT id, LENGTH(turn) FROM turns WHERE principal = ? AND session_id = ?"
        " ORDER BY id DESC",
        (conversation.principal, conversation.session_id),
    ).fetchall()


# Expiry, in steps: each step reads at most `limit` rows.


def drop_entries(db: LogConnection, ended_until: float, limit: int) -> list[UUID]:
    """Drop entries of the streams that ended first; return these streams, none when done."""
    rows: list[tuple[int, bytes, int]] = db.execute(
        "SELECT n, stream_id, body_gone FROM streams INDEXED BY streams_with_entries"
        " WHERE outcome IS NOT NULL AND body_gone <> 1 AND ended_at <= ?"
        " ORDER BY ended_at LIMIT ?",
        (ended_until, limit),
    ).fetchall()
    touched: list[UUID] = []
    left = limit * _BYTES_PER_ROW
    for n, stream_id, body_gone in rows:
        if left <= 0:
            break
        touched.append(UUID(bytes=stream_id))
        db.staged.drop(touched[-1])
        dropped, more = _drop_some_entries(db, n, left)
        left -= dropped
        state = _BEING_DROPPED if more else _GONE
        if state != body_gone:
            db.execute("UPDATE streams SET body_gone = ? WHERE n = ?", (state, n))
        if more:
            break
    return touched


def _drop_some_entries(db: LogConnection, n: int, max_bytes: int) -> tuple[int, bool]:
    """Drop the first entries of a stream; return their size, and whether there may be more."""
    size = count = last = 0
    for seq, length in db.execute(
        "SELECT first_seq, LENGTH(run) FROM runs WHERE n = ? ORDER BY first_seq LIMIT ?",
        (n, _MAX_RUNS),
    ):
        size += length
        count += 1
        last = seq
        if size >= max_bytes:
            break
    db.execute("DELETE FROM runs WHERE n = ? AND first_seq <= ?", (n, last))
    return size, count == _MAX_RUNS or size >= max_bytes


def drop_streams(db: LogConnection, ended_until: float, limit: int) -> int:
    """Drop the streams without entries that ended first; return how many, 0 when done."""
    return db.execute(
        "DELETE FROM streams WHERE n IN (SELECT n FROM streams INDEXED BY streams_ended"
        " WHERE outcome IS NOT NULL AND ended_at <= ? AND body_gone = 1 ORDER BY ended_at"
        " LIMIT ?)",
        (ended_until, limit),
    ).rowcount


def drop_turns(db: LogConnection, added_until: float, limit: int) -> int:
    """Check the oldest turns; return how many were checked, 0 when done.

    A turn is dropped if its conversation has no turn after `added_until`. Otherwise it gets the
    time of the latest turn of the conversation, so that it is not checked every time.
    """
    rows: list[tuple[int, str, str]] = db.execute(
        "SELECT id, principal, session_id FROM turns INDEXED BY turns_age WHERE added_at <= ?"
        " ORDER BY added_at LIMIT ?",
        (added_until, limit),
    ).fetchall()
    for id_, *conversation in rows:  # deleting a large turn is cheap: SQLite only frees its pages
        (latest,) = db.execute(
            "SELECT MAX(added_at) FROM turns INDEXED BY turns_latest"
            " WHERE principal = ? AND session_id = ?",
            conversation,
        ).fetchone()
        if latest > added_until:
            db.execute("UPDATE turns SET added_at = ? WHERE id = ?", (latest, id_))
        else:
            db.execute("DELETE FROM turns WHERE id = ?", (id_,))
    return len(rows)
