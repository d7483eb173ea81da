"""The tables of the SQLite log and what is done with them, inside a transaction of the worker."""

import sqlite3
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ..errors import PositionGone, UnknownStream
from ._rules import count_latest_turns, is_repeated, take_page
from .base import (
    MOST_TURN_BYTES,
    MOST_TURNS,
    Conversation,
    LeaseState,
    Page,
    StreamMeta,
)

__all__ = [
    "APPLICATION_ID",
    "SCHEMA",
    "SCHEMA_VERSION",
    "add",
    "add_turn",
    "by_id",
    "by_request",
    "drop_entries",
    "drop_streams",
    "drop_turns",
    "end",
    "page",
    "pragma",
    "probe",
    "question",
    "renew",
    "turns",
    "upgrade",
]

APPLICATION_ID = 0x436F5265  # "CoRe"
SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE streams (
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
CREATE INDEX streams_running ON streams (lease_until) WHERE outcome IS NULL;
CREATE INDEX streams_ended ON streams (ended_at) WHERE outcome IS NOT NULL;
CREATE TABLE entries (
    n INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    entry BLOB NOT NULL,
    PRIMARY KEY (n, seq)
) WITHOUT ROWID;
CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    session_id TEXT NOT NULL,
    stream_id BLOB NOT NULL,
    turn BLOB NOT NULL,
    added_at REAL NOT NULL,
    UNIQUE (principal, session_id, stream_id)
);
CREATE INDEX turns_age ON turns (added_at);
"""
# Added to files of earlier releases too, which can go on with them: the version stays the same.
# Questions have a table of their own, since an append rewrites the row of its stream, and a
# question may be megabytes. The indexes are those of an expiry, so that it costs what expires.
_ADDITIONS = (
    "CREATE TABLE IF NOT EXISTS questions (n INTEGER PRIMARY KEY, question BLOB NOT NULL)",
    (
        "CREATE INDEX IF NOT EXISTS streams_with_entries ON streams (ended_at)"
        " WHERE outcome IS NOT NULL AND body_gone <> 1"
    ),
    "CREATE INDEX IF NOT EXISTS turns_latest ON turns (principal, session_id, added_at)",
)
# Values of `body_gone`: readers find nothing of a stream whose entries are being dropped, and an
# earlier release takes it for one without entries.
_GONE, _BEING_DROPPED = 1, 2
_BYTES_PER_ROW = 32_768  # dropped in one step for each stream or turn that it may look at
_MOST_ENTRIES = 1000  # of one stream, dropped in one step
_META = (
    "stream_id, principal, request_id, fingerprint, epoch, last_seq, opened_at, outcome, ended_at,"
    " cancel_requested, body_gone"
)


def pragma(db: sqlite3.Connection, name: str) -> int:
    value: int = db.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def upgrade(db: sqlite3.Connection) -> None:
    """Add what files of earlier releases do not have."""
    for statement in _ADDITIONS:
        db.execute(statement)
    # An earlier release may have ended streams without dropping their questions.
    db.execute("DELETE FROM questions WHERE n NOT IN (SELECT n FROM streams WHERE outcome IS NULL)")


def probe(db: sqlite3.Connection) -> None:
    """Write and delete something, so that a file that cannot be written is found at the start."""
    db.execute("INSERT OR REPLACE INTO questions (n, question) VALUES (-1, x'00')")
    db.execute("DELETE FROM questions WHERE n = -1")


def _meta(row: tuple[Any, ...]) -> StreamMeta:
    return StreamMeta(
        stream_id=UUID(bytes=row[0]),
        principal=row[1],
        request_id=UUID(bytes=row[2]),
        fingerprint=row[3],
        epoch=row[4],
        last_seq=row[5],
        opened_at=row[6],
        outcome=row[7],
        ended_at=row[8],
        cancel_requested=bool(row[9]),
        body_gone=bool(row[10]),
    )


def by_id(db: sqlite3.Connection, stream_id: UUID) -> StreamMeta:
    row = db.execute(
        f"SELECT {_META} FROM streams WHERE stream_id = ?",  # noqa: S608
        (stream_id.bytes,),
    ).fetchone()
    if row is None:
        raise UnknownStream(stream_id)
    return _meta(row)


def by_request(db: sqlite3.Connection, principal: str, request_id: UUID) -> StreamMeta | None:
    row = db.execute(
        f"SELECT {_META} FROM streams WHERE principal = ? AND request_id = ?",  # noqa: S608
        (principal, request_id.bytes),
    ).fetchone()
    return None if row is None else _meta(row)


def add(
    db: sqlite3.Connection, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
) -> tuple[bool, bool]:
    """Append; return whether anything was added, and whether a cancel was asked for."""
    row = db.execute(
        "SELECT n, epoch, last_seq, outcome, cancel_requested FROM streams WHERE stream_id = ?",
        (stream_id.bytes,),
    ).fetchone()
    if row is None:
        raise UnknownStream(stream_id)
    n, current, last_seq, outcome, cancel_requested = row
    if is_repeated(
        stream_id,
        epoch,
        first_seq,
        len(entries),
        current_epoch=current,
        last_seq=last_seq,
        ended=outcome is not None,
    ):
        return False, bool(cancel_requested)
    db.executemany(
        "INSERT INTO entries (n, seq, entry) VALUES (?, ?, ?)",
        [(n, seq, entry) for seq, entry in enumerate(entries, first_seq)],
    )
    db.execute("UPDATE streams SET last_seq = ? WHERE n = ?", (last_seq + len(entries), n))
    return True, bool(cancel_requested)


def page(db: sqlite3.Connection, stream_id: UUID, after_seq: int, limit: int) -> Page:
    row = db.execute(
        "SELECT n, last_seq, outcome, body_gone FROM streams WHERE stream_id = ?",
        (stream_id.bytes,),
    ).fetchone()
    if row is None:
        raise UnknownStream(stream_id)
    n, last_seq, outcome, body_gone = row
    if body_gone and after_seq < last_seq:
        raise PositionGone(stream_id, after_seq)
    rows = db.execute(
        "SELECT entry FROM entries WHERE n = ? AND seq > ? ORDER BY seq LIMIT ?",
        (n, after_seq, limit),
    )
    entries = take_page(entry for (entry,) in rows)
    return Page(entries, outcome is not None and after_seq + len(entries) >= last_seq)


def renew(db: sqlite3.Connection, stream_id: UUID, epoch: int, until: float) -> LeaseState:
    row = db.execute(
        "UPDATE streams SET lease_until = ? WHERE stream_id = ? AND epoch = ? AND outcome IS NULL"
        " RETURNING cancel_requested",
        (until, stream_id.bytes, epoch),
    ).fetchone()
    if row is None:
        return LeaseState.LOST
    return LeaseState.CANCEL_REQUESTED if row[0] else LeaseState.HELD


def end(db: sqlite3.Connection, stream_id: UUID, outcome: str, now: float) -> None:
    """End a stream and drop its question."""
    (n,) = db.execute(
        "UPDATE streams SET outcome = ?, ended_at = ? WHERE stream_id = ? RETURNING n",
        (outcome, now, stream_id.bytes),
    ).fetchone()
    db.execute("DELETE FROM questions WHERE n = ?", (n,))


def question(db: sqlite3.Connection, stream_id: UUID) -> bytes:
    """Return what a stream was opened with."""
    row = db.execute(
        "SELECT question FROM questions JOIN streams USING (n) WHERE stream_id = ?",
        (stream_id.bytes,),
    ).fetchone()
    return b"" if row is None else bytes(row[0])


def add_turn(
    db: sqlite3.Connection, conversation: Conversation, stream_id: UUID, turn: bytes, now: float
) -> None:
    """Add a turn, and drop the oldest ones beyond what a conversation keeps."""
    whose = (conversation.principal, conversation.session_id)
    db.execute(
        "INSERT OR IGNORE INTO turns (principal, session_id, stream_id, turn, added_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (*whose, stream_id.bytes, turn, now),
    )
    count, size = db.execute(
        "SELECT COUNT(*), SUM(LENGTH(turn)) FROM turns WHERE principal = ? AND session_id = ?",
        whose,
    ).fetchone()
    if count > MOST_TURNS or size > MOST_TURN_BYTES:
        sizes = _turn_sizes(db, conversation)
        kept = count_latest_turns((size for _, size in sizes), MOST_TURNS, MOST_TURN_BYTES)
        db.executemany("DELETE FROM turns WHERE id = ?", [(id_,) for id_, _ in sizes[kept:]])


def turns(db: sqlite3.Connection, conversation: Conversation, limit: int) -> list[bytes]:
    """Return the latest turns of a conversation, oldest first."""
    sizes = _turn_sizes(db, conversation)
    most = max(0, min(limit, MOST_TURNS))
    count = count_latest_turns((size for _, size in sizes), most, MOST_TURN_BYTES)
    ids = reversed([id_ for id_, _ in sizes[:count]])
    return [db.execute("SELECT turn FROM turns WHERE id = ?", (id_,)).fetchone()[0] for id_ in ids]


def _turn_sizes(db: sqlite3.Connection, conversation: Conversation) -> list[tuple[int, int]]:
    """Return the ids and sizes of the turns of a conversation, newest first."""
    return db.execute(
        "SELECT id, LENGTH(turn) FROM turns WHERE principal = ? AND session_id = ?"
        " ORDER BY id DESC",
        (conversation.principal, conversation.session_id),
    ).fetchall()


# Expiry, in steps: each looks at no more rows than it drops.


def drop_entries(db: sqlite3.Connection, ended_until: float, most: int) -> list[UUID]:
    """Drop entries of some streams that ended first; return the streams, none when done."""
    rows: list[tuple[int, bytes, int]] = db.execute(
        "SELECT n, stream_id, body_gone FROM streams INDEXED BY streams_with_entries"
        " WHERE outcome IS NOT NULL AND body_gone <> 1 AND ended_at <= ?"
        " ORDER BY ended_at LIMIT ?",
        (ended_until, most),
    ).fetchall()
    touched: list[UUID] = []
    left = most * _BYTES_PER_ROW
    for n, stream_id, body_gone in rows:
        if left <= 0:
            break
        touched.append(UUID(bytes=stream_id))
        dropped, more = _drop_some_entries(db, n, left)
        left -= dropped
        state = _BEING_DROPPED if more else _GONE
        if state != body_gone:
            db.execute("UPDATE streams SET body_gone = ? WHERE n = ?", (state, n))
        if more:
            break
    return touched


def _drop_some_entries(db: sqlite3.Connection, n: int, most_bytes: int) -> tuple[int, bool]:
    """Drop the first entries of a stream; return their bytes, and whether there may be more."""
    size = count = last = 0
    for seq, length in db.execute(
        "SELECT seq, LENGTH(entry) FROM entries WHERE n = ? ORDER BY seq LIMIT ?",
        (n, _MOST_ENTRIES),
    ):
        size += length
        count += 1
        last = seq
        if size >= most_bytes:
            break
    db.execute("DELETE FROM entries WHERE n = ? AND seq <= ?", (n, last))
    return size, count == _MOST_ENTRIES or size >= most_bytes


def drop_streams(db: sqlite3.Connection, ended_until: float, most: int) -> int:
    """Drop some streams that ended first and have no entries; return how many, 0 when done."""
    return db.execute(
        "DELETE FROM streams WHERE n IN (SELECT n FROM streams INDEXED BY streams_ended"
        " WHERE outcome IS NOT NULL AND ended_at <= ? AND body_gone = 1 ORDER BY ended_at"
        " LIMIT ?)",
        (ended_until, most),
    ).rowcount


def drop_turns(db: sqlite3.Connection, added_until: float, most: int) -> int:
    """Look at some of the oldest turns; return how many, 0 when done.

    Those of conversations that have ended are dropped. A turn of a conversation that goes on gets
    the time of its latest turn, so that it is not looked at again and again.
    """
    rows: list[tuple[int, str, str]] = db.execute(
        "SELECT id, principal, session_id FROM turns INDEXED BY turns_age WHERE added_at <= ?"
        " ORDER BY added_at LIMIT ?",
        (added_until, most),
    ).fetchall()
    for id_, *conversation in rows:  # a large turn costs little: its pages are not written
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
