"""The tables of the SQLite log: creating them, and upgrading those of an earlier release."""

import sqlite3
from collections.abc import Iterable

from ._staging import pack_runs

APPLICATION_ID = 0x436F5265  # "CoRe"
SCHEMA_VERSION = 5
# Questions, and values of tasks, have their own tables: rows of `streams` and `tasks` are often
# rewritten, and a question may have megabytes. With the indexes, the cost of an expiry depends only
# on what expires.
_SCHEMA = """
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
    agent_id TEXT,
    version TEXT,
    claimed_seq INTEGER NOT NULL DEFAULT 0,
    claimed_note INTEGER NOT NULL DEFAULT 0,
    epoch_starts TEXT NOT NULL DEFAULT '',
    released INTEGER,
    UNIQUE (principal, request_id)
);
CREATE INDEX IF NOT EXISTS streams_running ON streams (lease_until) WHERE outcome IS NULL;
CREATE INDEX IF NOT EXISTS streams_ended ON streams (ended_at) WHERE outcome IS NOT NULL;
CREATE INDEX IF NOT EXISTS streams_with_entries ON streams (ended_at)
    WHERE outcome IS NOT NULL AND body_gone <> 1;
CREATE TABLE IF NOT EXISTS questions (n INTEGER PRIMARY KEY, question BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY,
    n INTEGER NOT NULL,
    number INTEGER NOT NULL,
    note BLOB NOT NULL,
    UNIQUE (n, number)
);
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
    epoch INTEGER NOT NULL DEFAULT 1,
    UNIQUE (principal, session_id, stream_id)
);
CREATE INDEX IF NOT EXISTS turns_age ON turns (added_at);
CREATE INDEX IF NOT EXISTS turns_latest ON turns (principal, session_id, added_at);
CREATE TABLE IF NOT EXISTS tasks (
    id INTEGER PRIMARY KEY,
    task_id BLOB NOT NULL UNIQUE,
    principal TEXT NOT NULL,
    context_id TEXT NOT NULL,
    state TEXT NOT NULL,
    changed REAL NOT NULL,
    data BLOB NOT NULL,
    open INTEGER NOT NULL,
    version INTEGER NOT NULL,
    revisions TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS tasks_latest ON tasks (principal, changed, task_id);
CREATE INDEX IF NOT EXISTS tasks_age ON tasks (open, changed);
CREATE TABLE IF NOT EXISTS task_values (
    id INTEGER PRIMARY KEY,
    task_id BLOB NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 0,
    UNIQUE (task_id, name)
);
CREATE TABLE IF NOT EXISTS deliveries (
    id INTEGER PRIMARY KEY,
    task_id BLOB NOT NULL,
    name BLOB NOT NULL,
    data BLOB NOT NULL,
    progress BLOB NOT NULL,
    due REAL,
    revision TEXT NOT NULL,
    UNIQUE (task_id, name)
);
CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (due) WHERE due IS NOT NULL
"""
# Columns that earlier releases did not have.
_NEW_COLUMNS = (
    ("streams", "agent_id TEXT"),
    ("streams", "version TEXT"),
    ("streams", "claimed_seq INTEGER NOT NULL DEFAULT 0"),
    ("streams", "claimed_note INTEGER NOT NULL DEFAULT 0"),
    ("streams", "epoch_starts TEXT NOT NULL DEFAULT ''"),
    ("turns", "epoch INTEGER NOT NULL DEFAULT 1"),
    ("streams", "released INTEGER"),
    ("tasks", "revisions TEXT NOT NULL DEFAULT ''"),
)


def pragma(db: sqlite3.Connection, name: str) -> int:
    """Return the value of a pragma."""
    value: int = db.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def prepare(db: sqlite3.Connection) -> None:
    """Create the tables, or upgrade those of an earlier release."""
    version = pragma(db, "user_version")
    for statement in _SCHEMA.split(";\n"):
        db.execute(statement)
    if version == 1:
        _store_entries_in_runs(db)
    for table, column in _NEW_COLUMNS:
        if column.partition(" ")[0] not in _columns(db, table):
            db.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def _store_entries_in_runs(db: sqlite3.Connection) -> None:
    """Upgrade from version 1, in which each entry had its own row."""
    for (n,) in db.execute("SELECT DISTINCT n FROM entries").fetchall():
        first_seq: int
        (first_seq,) = db.execute("SELECT MIN(seq) FROM entries WHERE n = ?", (n,)).fetchone()
        rows = db.execute("SELECT entry FROM entries WHERE n = ? ORDER BY seq", (n,))
        insert_runs(db, n, first_seq, (entry for (entry,) in rows))
    db.execute("DROP TABLE entries")
    # Version 1 did not drop the question at the end of a stream.
    db.execute("DELETE FROM questions WHERE n NOT IN (SELECT n FROM streams WHERE outcome IS NULL)")


def insert_runs(db: sqlite3.Connection, n: int, first_seq: int, entries: Iterable[bytes]) -> None:
    """Insert the entries of a stream from `first_seq` on, as runs."""
    db.executemany(
        "INSERT INTO runs (n, first_seq, run) VALUES (?, ?, ?)",
        ((n, seq, run) for seq, run in pack_runs(first_seq, entries)),
    )


def probe(db: sqlite3.Connection) -> None:
    """Write and delete a row, so that `start` fails if the file cannot be written."""
    db.execute("INSERT OR REPLACE INTO questions (n, question) VALUES (-1, x'00')")
    db.execute("DELETE FROM questions WHERE n = -1")
