"""The tables of the SQLite log, and files of earlier releases."""

import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

from coreason_client.server.log import Claim, Conversation, NewStream, SQLiteStreamLog
from coreason_client.server.log._schema import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    pragma,
    prepare,
    probe,
)
from coreason_client.server.log._sql import LogConnection, load_staged, read_page
from coreason_client.server.log.base import MAX_TURNS

from ..aio import aio

VERSION_1 = """
CREATE TABLE streams (n INTEGER PRIMARY KEY, stream_id BLOB NOT NULL UNIQUE,
    principal TEXT NOT NULL, request_id BLOB NOT NULL, fingerprint TEXT NOT NULL,
    epoch INTEGER NOT NULL, last_seq INTEGER NOT NULL, opened_at REAL NOT NULL, outcome TEXT,
    ended_at REAL, cancel_requested INTEGER NOT NULL, body_gone INTEGER NOT NULL,
    lease_until REAL NOT NULL, UNIQUE (principal, request_id));
CREATE INDEX streams_running ON streams (lease_until) WHERE outcome IS NULL;
CREATE INDEX streams_ended ON streams (ended_at) WHERE outcome IS NOT NULL;
CREATE TABLE entries (n INTEGER NOT NULL, seq INTEGER NOT NULL, entry BLOB NOT NULL,
    PRIMARY KEY (n, seq)) WITHOUT ROWID;
CREATE TABLE turns (id INTEGER PRIMARY KEY, principal TEXT NOT NULL, session_id TEXT NOT NULL,
    stream_id BLOB NOT NULL, turn BLOB NOT NULL, added_at REAL NOT NULL,
    UNIQUE (principal, session_id, stream_id));
CREATE INDEX turns_age ON turns (added_at);
"""


async def start(path: Path) -> SQLiteStreamLog:
    log = SQLiteStreamLog(path, lock_timeout=0.05)
    await log.start("me")
    return log


def connect() -> LogConnection:
    return sqlite3.connect(":memory:", isolation_level=None, factory=LogConnection)


def tables(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()


def test_prepared_tables_stay_as_they_are() -> None:
    with closing(connect()) as db:
        prepare(db)
        once = tables(db)
        db.execute("INSERT INTO questions VALUES (1, 'kept')")
        prepare(db)
        assert tables(db) == once
        assert db.execute("SELECT * FROM questions").fetchall() == [(1, "kept")]
        assert (pragma(db, "user_version"), pragma(db, "application_id")) == (
            SCHEMA_VERSION,
            APPLICATION_ID,
        )


def test_a_probe_leaves_nothing_behind() -> None:
    with closing(connect()) as db:
        prepare(db)
        probe(db)
        assert db.execute("SELECT * FROM questions").fetchall() == []


def test_an_upgraded_stream_keeps_the_numbers_of_its_entries() -> None:
    """Also if its first entries were dropped."""
    stream_id = uuid4()
    with closing(connect()) as db:
        db.executescript(VERSION_1)
        db.execute("PRAGMA user_version = 1")
        db.execute(
            "INSERT INTO streams VALUES (1, ?, 'p', x'00', 'f', 1, 9, 0, NULL, 0, 0, 0, 0)",
            (stream_id.bytes,),
        )
        db.executemany(
            "INSERT INTO entries VALUES (1, ?, ?)", [(seq, b"%d" % seq) for seq in (9, 8, 7)]
        )
        prepare(db)
        load_staged(db)
        assert list(read_page(db, stream_id, 6, 10).entries) == [b"7", b"8", b"9"]
        assert list(read_page(db, stream_id, 8, 10).entries) == [b"9"]


@aio
async def test_a_file_of_an_earlier_release_is_upgraded_and_used(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    db = sqlite3.connect(path)
    db.executescript(VERSION_1)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("PRAGMA user_version = 1")
    running, ended, talk = uuid4(), uuid4(), Conversation("p", "s")
    entries = [b"entry %d" % number for number in range(1000)]
    for n, (stream_id, outcome) in enumerate(((running, None), (ended, "complete")), 1):
        db.execute(
            "INSERT INTO streams VALUES (?, ?, 'p', ?, 'f', 1, ?, 0, ?, 0, 0, 0, 0)",
            (n, stream_id.bytes, uuid4().bytes, len(entries), outcome),
        )
        db.executemany(
            "INSERT INTO entries VALUES (?, ?, ?)",
            [(n, seq, entry) for seq, entry in enumerate(entries, 1)],
        )
    db.executemany(
        "INSERT INTO turns (principal, session_id, stream_id, turn, added_at)"
        " VALUES ('p', 's', ?, ?, 0)",
        [(uuid4().bytes, b"turn %d" % number) for number in range(MAX_TURNS + 2)],
    )
    db.commit()
    db.close()
    log = await start(path)
    for stream_id in (running, ended):
        assert list((await log.read(stream_id, 0, 2000, 0)).entries) == entries
        assert list((await log.read(stream_id, 700, 10, 0)).entries) == entries[700:710]
    assert (await log.read(ended, 990, 100, 0)).ended
    assert list(await log.claim_lost("me", 10)) == [Claim(running, 2, len(entries))]
    assert len(await log.turns(talk, 2 * MAX_TURNS)) == MAX_TURNS
    await log.add_turn(talk, uuid4(), b"new")
    assert list(await log.turns(talk, 2)) == [b"turn %d" % (MAX_TURNS + 1), b"new"]
    await log.open(NewStream(uuid4(), "p", uuid4(), "f", b"a question"), "me")
    await log.close(running, 2, len(entries) + 1, [b"x"], "producer_lost")
    assert list((await log.read(running, 998, 10, 0)).entries) == [*entries[998:], b"x"]
    await log.stop("me")
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert db.execute("SELECT COUNT(*) FROM turns").fetchone() == (MAX_TURNS,)
    of_an_old_file = tables(db)
    db.close()
    await (await start(tmp_path / "new.db")).stop("me")
    db = sqlite3.connect(tmp_path / "new.db")
    of_a_new_file = tables(db)
    db.close()
    assert of_an_old_file == of_a_new_file
    again = await start(path)
    assert list((await again.read(running, 998, 10, 0)).entries) == [*entries[998:], b"x"]
    await again.stop("me")


@aio
async def test_questions_of_ended_streams_in_an_old_file_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    db = sqlite3.connect(path)
    db.executescript(VERSION_1)
    db.execute("CREATE TABLE questions (n INTEGER PRIMARY KEY, question BLOB NOT NULL)")
    db.execute("INSERT INTO questions VALUES (7, 'of a stream that has ended')")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()
    await (await start(path)).stop("me")
    db = sqlite3.connect(path)
    assert db.execute("SELECT COUNT(*) FROM questions").fetchone() == (0,)
    db.close()
