"""The tables of the SQLite log and its statements; the worker runs them in its transactions."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any
from uuid import UUID

from ..errors import UnknownStream
from ._rules import count_latest_turns, is_repeated, make_page, take_page
from ._staging import StagedEntries, pack_runs, unpack_run
from .base import (
    MAX_TURN_BYTES,
    MAX_TURNS,
    Claim,
    Conversation,
    LeaseState,
    Page,
    StreamMeta,
)

__all__ = [
    "APPLICATION_ID",
    "SCHEMA",
    "SCHEMA_VERSION",
    "LogConnection",
    "add_turn",
    "append",
    "claim",
    "drop_entries",
    "drop_streams",
    "drop_turns",
    "end_stream",
    "find_meta",
    "load_meta",
    "load_staged",
    "move_staged",
    "pragma",
    "prepare",
    "probe",
    "question",
    "read_page",
    "renew",
    "request_cancel",
    "turns",
    "write_staged",
]

APPLICATION_ID = 0x436F5265  # "CoRe"
SCHEMA_VERSION = 2
# Questions have their own table: rows of `streams` are often rewritten, and a question may have
# megabytes. With the indexes, the cost of an expiry depends only on what expires.
SCHEMA = """
CREATE TABLE IF NOT EXISTS streams (
    n INTEGER PRIMARY KEY,
    stream_id BLOB NOT NULL UNIQUE,
    principal TEXT NOT NULL,
    request_id BLOB NOT NULL,
    fingerprint TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    opened_at REAL NOT NULL,
    outcome TEXT,
    ended_at REAL,
    cancel_requested INTEGER NOT NULL,
    body_gone INTEGER NOT NULL,
    lease_until REAL NOT NULL,
    UNIQUE (principal, request_id)
);
CREATE INDEX IF NOT EXISTS streams_running ON streams (lease_until) WHERE outcome IS NULL;
CREATE INDEX IF NOT EXISTS streams_ended ON streams (ended_at) WHERE outcome IS NOT NULL;
CREATE INDEX IF NOT EXISTS streams_with_entries ON streams (ended_at)
    WHERE outcome IS NOT NULL AND body_gone <> 1;
CREATE TABLE IF NOT EXISTS questions (n INTEGER PRIMARY KEY, question BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS staged (id INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY,
    n INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    run BLOB NOT NULL,
    UNIQUE (n, first_seq)
);
CREATE TABLE IF NOT EXISTS turns (
    id INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    session_id TEXT NOT NULL,
    stream_id BLOB NOT NULL,
    turn BLOB NOT NULL,
    added_at REAL NOT NULL,
    UNIQUE (principal, session_id, stream_id)
);
CREATE INDEX IF NOT EXISTS turns_age ON turns (added_at);
CREATE INDEX IF NOT EXISTS turns_latest ON turns (principal, session_id, added_at)
"""
# Values of `body_gone`. In both cases readers cannot read any entry of the stream.
_GONE, _BEING_DROPPED = 1, 2
_BYTES_PER_ROW = 32_768  # bytes that one step drops for each stream that it may look at
_MAX_RUNS = 1000  # runs of one stream that one step drops
_META = (
    "stream_id, principal, request_id, fingerprint, epoch, last_seq, opened_at, outcome, ended_at,"
    " cancel_requested, body_gone"
)


class _StreamState:
    """The state of a stream that an append checks."""

    __slots__ = ("cancel_requested", "ended", "epoch", "last_seq")

    def __init__(self, epoch: int, last_seq: int, *, ended: bool, cancel_requested: bool) -> None:
        self.epoch = epoch
        self.last_seq = last_seq
        self.ended = ended
        self.cancel_requested = cancel_requested


class LogConnection(sqlite3.Connection):
    """A connection to a log, with a cache of what it has written.

    No other process writes the file, so the cache is valid until a transaction is rolled back.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.staged = StagedEntries()
        self.states: dict[UUID, _StreamState] = {}  # of running streams
        self.stale = True  # both must be loaded before they are used


def pragma(db: LogConnection, name: str) -> int:
    """Return the value of a pragma."""
    value: int = db.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def prepare(db: LogConnection) -> None:
    """Create the tables, or upgrade those of an earlier release."""
    version = pragma(db, "user_version")
    for statement in SCHEMA.split(";\n"):
        db.execute(statement)
    if version == 1:
        _upgrade(db)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _upgrade(db: LogConnection) -> None:
    """Upgrade from version 1, in which each entry had its own row."""
    for (n,) in db.execute("SELECT DISTINCT n FROM entries").fetchall():
        first_seq: int
        (first_seq,) = db.execute("SELECT MIN(seq) FROM entries WHERE n = ?", (n,)).fetchone()
        rows = db.execute("SELECT entry FROM entries WHERE n = ? ORDER BY seq", (n,))
        _add_runs(db, n, first_seq, (entry for (entry,) in rows))
    db.execute("DROP TABLE entries")
    # Version 1 did not drop the question at the end of a stream.
    db.execute("DELETE FROM questions WHERE n NOT IN (SELECT n FROM streams WHERE outcome IS NULL)")


def _add_runs(db: LogConnection, n: int, first_seq: int, entries: Iterable[bytes]) -> None:
    db.executemany(
        "INSERT INTO runs (n, first_seq, run) VALUES (?, ?, ?)",
        ((n, seq, run) for seq, run in pack_runs(first_seq, entries)),
    )


def probe(db: LogConnection) -> None:
    """Write and delete a row, so that `start` fails if the file cannot be written."""
    db.execute("INSERT OR REPLACE INTO questions (n, question) VALUES (-1, x'00')")
    db.execute("DELETE FROM questions WHERE n = -1")


def _meta(db: LogConnection, row: tuple[Any, ...]) -> StreamMeta:
    stream_id = UUID(bytes=row[0])
    return StreamMeta(
        stream_id=stream_id,
        principal=row[1],
        request_id=UUID(bytes=row[2]),
        fingerprint=row[3],
        epoch=row[4],
        last_seq=_last_seq(db, stream_id, row[5]),
        opened_at=row[6],
        outcome=row[7],
        ended_at=row[8],
        cancel_requested=bool(row[9]),
        body_gone=bool(row[10]),
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


def _last_seq(db: LogConnection, stream_id: UUID, moved: int) -> int:
    """Return the number of the last entry; `moved` does not count staged entries."""
    return max(moved, db.staged.last_seq(stream_id) or 0)


def append(
    db: LogConnection, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
) -> tuple[bool, bool]:
    """Append; return whether the entries are new, and whether a cancel was requested."""
    state = db.states.get(stream_id) or _load_state(db, stream_id)
    if is_repeated(
        stream_id,
        epoch,
        first_seq,
        len(entries),
        current_epoch=state.epoch,
        last_seq=state.last_seq,
        ended=state.ended,
    ):
        return False, state.cancel_requested
    db.staged.add(stream_id, first_seq, entries)
    state.last_seq += len(entries)
    return True, state.cancel_requested


def _load_state(db: LogConnection, stream_id: UUID) -> _StreamState:
    meta = load_meta(db, stream_id)
    state = _StreamState(
        meta.epoch,
        meta.last_seq,
        ended=meta.outcome is not None,
        cancel_requested=meta.cancel_requested,
    )
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
        _add_runs(db, n, first_seq, entries)


def read_page(db: LogConnection, stream_id: UUID, after_seq: int, limit: int) -> Page:
    """Return up to `limit` entries after a position.

    Raises:
        PositionGone: the entries that follow the position have been dropped.
        UnknownStream: there is no such stream.
    """
    row = db.execute(
        "SELECT n, last_seq, outcome, body_gone FROM streams WHERE stream_id = ?",
        (stream_id.bytes,),
    ).fetchone()
    if row is None:
        raise UnknownStream(stream_id)
    n, moved, outcome, body_gone = row
    staged = db.staged.after(stream_id, after_seq)
    return make_page(
        stream_id,
        after_seq,
        take_page(islice(chain(_moved_entries(db, n, after_seq), staged), limit)),
        last_seq=_last_seq(db, stream_id, moved),
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


def claim(db: LogConnection, now: float, until: float, limit: int) -> list[Claim]:
    """Take over streams whose lease ran out."""
    rows = db.execute(
        "UPDATE streams SET epoch = epoch + 1, lease_until = ? WHERE n IN"
        " (SELECT n FROM streams WHERE outcome IS NULL AND lease_until <= ? LIMIT ?)"
        " RETURNING stream_id, epoch, last_seq",
        (until, now, limit),
    ).fetchall()
    claims: list[Claim] = []
    for id_, epoch, moved in rows:
        stream_id = UUID(bytes=id_)
        db.states.pop(stream_id, None)
        last_seq = _last_seq(db, stream_id, moved)
        claims.append(Claim(stream_id, epoch, last_seq, question(db, stream_id)))
    return claims


def end_stream(db: LogConnection, stream_id: UUID, last_seq: int, outcome: str, now: float) -> None:
    """End a stream after its last entry and drop its question."""
    db.states.pop(stream_id, None)
    (n,) = db.execute(
        "UPDATE streams SET last_seq = ?, outcome = ?, ended_at = ? WHERE stream_id = ?"
        " RETURNING n",
        (last_seq, outcome, now, stream_id.bytes),
    ).fetchone()
    db.execute("DELETE FROM questions WHERE n = ?", (n,))


def question(db: LogConnection, stream_id: UUID) -> bytes:
    """Return the question of a stream, empty if it has none."""
    row = db.execute(
        "SELECT question FROM questions JOIN streams USING (n) WHERE stream_id = ?",
        (stream_id.bytes,),
    ).fetchone()
    return b"" if row is None else bytes(row[0])


def add_turn(
    db: LogConnection, conversation: Conversation, stream_id: UUID, turn: bytes, now: float
) -> None:
    """Add a turn, and drop the oldest ones that exceed the limits of a conversation."""
    key = (conversation.principal, conversation.session_id)
    db.execute(
        "INSERT OR IGNORE INTO turns (principal, session_id, stream_id, turn, added_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (*key, stream_id.bytes, turn, now),
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
