"""The tables of the SQLite log, and files of earlier releases."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from coreason_client.server.errors import PositionGone
from coreason_client.server.log import (
    AgentVersion,
    Claim,
    Conversation,
    EpochStart,
    NewStream,
    SQLiteStreamLog,
)
from coreason_client.server.log._schema import (
    _NEW_COLUMNS,
    _SCHEMA,
    APPLICATION_ID,
    SCHEMA_VERSION,
    insert_runs,
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
        assert list(read_page(db, stream_id, 6, 1, 10).entries) == [b"7", b"8", b"9"]
        assert list(read_page(db, stream_id, 8, 1, 10).entries) == [b"9"]


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
    [claim] = await log.claim_lost("me", 10)
    assert claim == Claim(running, (await log.meta(running)).epoch, len(entries))
    assert len(await log.turns(talk, 2 * MAX_TURNS)) == MAX_TURNS
    await log.add_turn(talk, uuid4(), b"new")
    assert list(await log.turns(talk, 2)) == [b"turn %d" % (MAX_TURNS + 1), b"new"]
    await log.open(NewStream(uuid4(), "p", uuid4(), "f", b"a question"), "me")
    await log.close(running, claim.epoch, len(entries) + 1, [b"x"], "producer_lost")
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


def schema_of(version: int) -> str:
    """Return the tables of an earlier version, which had fewer columns and tables."""
    schema = _SCHEMA.replace("    released INTEGER,\n", "")
    if version < 4:
        schema = schema[: schema.index("CREATE TABLE IF NOT EXISTS tasks")]
    if version < 3:
        notes = re.compile(r"CREATE TABLE IF NOT EXISTS notes \(.*?\);\n", re.DOTALL)
        schema = notes.sub("", schema)
        for _, column in _NEW_COLUMNS:
            schema = schema.replace(f"    {column},\n", "")
    return schema


def columns(db: sqlite3.Connection) -> dict[str, set[str]]:
    names = [name for kind, name in tables(db) if kind == "table"]
    return {name: {row[1] for row in db.execute(f"PRAGMA table_info({name})")} for name in names}


@pytest.mark.parametrize("version", [2, 3, 4])
@aio
async def test_streams_of_every_earlier_version_are_read_and_claimed(
    version: int, tmp_path: Path
) -> None:
    path, plain, durable = tmp_path / "l.db", uuid4(), uuid4()
    agent = AgentVersion("writer", "1")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(schema_of(version))
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {version}")
        for n, stream_id in enumerate((plain, durable), 1):
            db.execute(
                "INSERT INTO streams (n, stream_id, principal, request_id, fingerprint, epoch,"
                " last_seq, opened_at, cancel_requested, body_gone, lease_until)"
                " VALUES (?, ?, 'p', ?, 'f', 1, 6, 0, 0, 0, 0)",
                (n, stream_id.bytes, uuid4().bytes),
            )
            insert_runs(db, n, 1, [b"%d" % seq for seq in range(1, 7)])
        if version > 2:  # the earlier release counted the epochs
            db.execute(
                "UPDATE streams SET agent_id = 'writer', version = '1', epoch = 3, claimed_seq = 5,"
                " epoch_starts = ' 4 6' WHERE n = 2"
            )
    log = await start(path)
    counted = (EpochStart(4, 2), EpochStart(6, 3)) if version > 2 else ()
    for stream_id, epochs in ((plain, ()), (durable, counted)):
        meta = await log.meta(stream_id)
        assert (meta.epochs, meta.epoch) == (epochs, epochs[-1].epoch if epochs else 1)
        for seq in range(1, 7):
            page = await log.read(stream_id, seq, 10, 0, meta.epoch_of(seq))
            assert list(page.entries) == [b"%d" % after for after in range(seq + 1, 7)]
            with pytest.raises(PositionGone):
                await log.read(stream_id, seq, 10, 0, meta.epoch_of(seq) + 1)
    lost = [*await log.claim_lost("me", 10), *await log.claim_durable("me", agent, 10)]
    assert {claim.stream_id for claim in lost} == {plain, durable}
    for claim in lost:
        earlier = counted if claim.stream_id == durable else ()
        assert claim.epoch > 3
        meta = await log.meta(claim.stream_id)
        assert meta.epochs == (*earlier, EpochStart(7, claim.epoch))
        await log.append(claim.stream_id, claim.epoch, 7, [b"7"])
    if version > 2:
        epoch = (await log.meta(durable)).epoch
        for _ in range(2):  # the new column
            await log.release(durable, epoch)
    await log.stop("me")
    await (await start(tmp_path / "new.db")).stop("me")
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(tmp_path / "new.db")) as new:
        assert pragma(db, "user_version") == SCHEMA_VERSION
        assert (tables(db), columns(db)) == (tables(new), columns(new))
