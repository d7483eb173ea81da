"""What only the SQLite log does: the file, its lock, its thread and its cache."""

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import Fenced, LogUnavailable, PositionGone, UnknownStream
from coreason_client.server.log import Claim, Conversation, NewStream, SQLiteStreamLog, _sql
from coreason_client.server.log._recent_entries import RecentEntries
from coreason_client.server.log.base import MAX_TURNS, PAGE_BYTES

from ..aio import aio
from .backends import Clock


def new() -> NewStream:
    return NewStream(uuid4(), "p", uuid4(), "f")


async def start(path: Path) -> SQLiteStreamLog:
    log = SQLiteStreamLog(path, lock_timeout=0.05)
    await log.start("me")
    return log


@pytest.mark.proves("RES2-4d")
@aio
async def test_streams_outlive_the_log_and_their_leases_do_not(tmp_path: Path) -> None:
    log = await start(tmp_path / "l.db")
    done, lost = new(), new()
    await log.open(done, "me")
    await log.open(lost, "me")
    await log.close(done.stream_id, 1, 1, [b"x"], "complete")
    await log.append(lost.stream_id, 1, 1, [b"a", b"b"])
    await log.stop("me")
    log = await start(tmp_path / "l.db")
    assert list(await log.claim_lost("me", 10)) == [Claim(lost.stream_id, 2, 2)]
    assert list((await log.read(lost.stream_id, 0, 10, 0)).entries) == [b"a", b"b"]
    assert (await log.read(done.stream_id, 0, 10, 0)).ended
    await log.stop("me")


@aio
async def test_a_second_process_is_refused_with_a_sentence(tmp_path: Path) -> None:
    log = await start(tmp_path / "l.db")
    program = f"""
import asyncio
from coreason_client.server import SQLiteStreamLog
asyncio.run(SQLiteStreamLog({str(tmp_path / "l.db")!r}, lock_timeout=0.05).start("you"))
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False
    )
    assert b"is in use by another process: a SQLite log serves one process" in done.stderr
    await log.stop("me")
    again = await start(tmp_path / "l.db")
    await again.stop("me")


@aio
async def test_another_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE streams (x)")
    other.close()
    with pytest.raises(LogUnavailable, match="not a stream log"):
        await start(path)
    other = sqlite3.connect(path)
    assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    other.close()


@aio
async def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    await (await start(path)).stop("me")
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(LogUnavailable, match="schema version 99"):
        await start(path)


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


@aio
async def test_a_file_of_an_earlier_release_is_changed_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    db = sqlite3.connect(path)
    db.executescript(VERSION_1)
    db.execute(f"PRAGMA application_id = {_sql.APPLICATION_ID}")
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
    assert db.execute("PRAGMA user_version").fetchone() == (_sql.SCHEMA_VERSION,)
    assert db.execute("SELECT COUNT(*) FROM turns").fetchone() == (MAX_TURNS,)
    of_an_old_file = db.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()
    db.close()
    await (await start(tmp_path / "new.db")).stop("me")
    db = sqlite3.connect(tmp_path / "new.db")
    of_a_new_file = db.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()
    db.close()
    assert of_an_old_file == of_a_new_file
    again = await start(path)
    assert list((await again.read(running, 998, 10, 0)).entries) == [*entries[998:], b"x"]
    await again.stop("me")


@aio
async def test_questions_that_an_earlier_release_left_behind_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    db = sqlite3.connect(path)
    db.executescript(VERSION_1)
    db.execute("CREATE TABLE questions (n INTEGER PRIMARY KEY, question BLOB NOT NULL)")
    db.execute("INSERT INTO questions VALUES (7, 'of a stream that has ended')")
    db.execute(f"PRAGMA application_id = {_sql.APPLICATION_ID}")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()
    await (await start(path)).stop("me")
    db = sqlite3.connect(path)
    assert db.execute("SELECT COUNT(*) FROM questions").fetchone() == (0,)
    db.close()


@aio
async def test_the_end_of_a_stream_frees_its_question(tmp_path: Path) -> None:
    log = await start(tmp_path / "l.db")
    stream = NewStream(uuid4(), "p", uuid4(), "f", b"a question")
    await log.open(stream, "me")

    def count() -> "asyncio.Future[object]":
        return log._worker.submit(
            lambda db: db.execute("SELECT COUNT(*) FROM questions").fetchone()
        )

    assert await count() == (1,)
    await log.close(stream.stream_id, 1, 1, [b"x"], "complete")
    assert await count() == (0,)
    await log.stop("me")


@pytest.mark.parametrize("kind", ["folder", "garbage", "no folder"])
@aio
async def test_what_cannot_be_opened_is_told(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "l.db"
    if kind == "folder":
        path.mkdir()
    elif kind == "garbage":
        path.write_bytes(b"garbage" * 1000)
    else:
        path = tmp_path / "nowhere" / "l.db"
    with pytest.raises(LogUnavailable, match="cannot be opened"):
        await start(path)


@aio
async def test_a_log_that_does_not_run_says_so(tmp_path: Path) -> None:
    log = SQLiteStreamLog(tmp_path / "l.db")
    with pytest.raises(LogUnavailable, match="has not been started"):
        await log.meta(uuid4())
    with pytest.raises(ValueError, match="NORMAL"):
        SQLiteStreamLog(tmp_path / "l.db", synchronous="OFF")  # type: ignore[arg-type]


@aio
async def test_the_settings_of_the_file(tmp_path: Path) -> None:
    log = await start(tmp_path / "l.db")

    def pragma(name: str) -> "asyncio.Future[object]":
        return log._worker.submit(lambda db: db.execute(f"PRAGMA {name}").fetchone()[0])

    assert await pragma("journal_mode") == "wal"
    assert await pragma("synchronous") == 1
    assert await pragma("locking_mode") == "exclusive"
    await log.stop("me")


@aio
async def test_appends_that_wait_share_a_commit_and_not_their_errors(tmp_path: Path) -> None:
    log = await start(tmp_path / "l.db")
    streams = [new() for _ in range(20)]
    await asyncio.gather(*(log.open(stream, "me") for stream in streams))
    commits: list[str] = []
    await log._worker.submit(lambda db: db.set_trace_callback(commits.append))
    results = await asyncio.gather(
        *(log.append(s.stream_id, 1 + (n == 7), 1, [b"x"]) for n, s in enumerate(streams)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [
        Fenced if number == 7 else bool for number in range(20)
    ]
    assert commits.count("COMMIT") < 10
    await log.stop("me")


@aio
async def test_a_job_that_breaks_its_commit_does_not_take_others_with_it(tmp_path: Path) -> None:
    log = await start(tmp_path / "l.db")
    good, bad = new(), new()
    await log.open(good, "me")
    await log.open(bad, "me")
    results = await asyncio.gather(
        log.append(good.stream_id, 1, 1, [b"x"]),
        log.append(bad.stream_id, 1, 1, [object()]),  # type: ignore[list-item]
        log.append(good.stream_id, 1, 2, [b"y"]),
        return_exceptions=True,
    )
    assert results[0] is False
    assert isinstance(results[1], LogUnavailable)
    assert results[2] is False
    assert list((await log.read(good.stream_id, 0, 10, 0)).entries) == [b"x", b"y"]
    assert (await log.meta(bad.stream_id)).last_seq == 0
    await log.stop("me")


@aio
async def test_an_append_whose_caller_is_gone_still_reaches_the_readers(tmp_path: Path) -> None:
    log = await start(tmp_path / "l.db")
    stream = new()
    await log.open(stream, "me")
    reading = asyncio.ensure_future(log.read(stream.stream_id, 0, 10, 60.0))
    appending = asyncio.ensure_future(log.append(stream.stream_id, 1, 1, [b"x"]))
    await asyncio.sleep(0)
    appending.cancel()
    assert list((await reading).entries) == [b"x"]
    await log.stop("me")


@pytest.mark.parametrize(
    ("turn", "count", "kept"), [(b"x", MAX_TURNS + 3, MAX_TURNS), (bytes(1_000_000), 6, 4)]
)
@aio
async def test_the_file_holds_no_more_turns_than_are_kept(
    tmp_path: Path, turn: bytes, count: int, kept: int
) -> None:
    log = await start(tmp_path / "l.db")
    await asyncio.gather(
        *(log.add_turn(Conversation("p", "s"), uuid4(), turn) for _ in range(count))
    )
    await log.stop("me")
    db = sqlite3.connect(tmp_path / "l.db")
    assert db.execute("SELECT COUNT(*) FROM turns").fetchone() == (kept,)
    db.close()


# Expiry.


async def ended(log: SQLiteStreamLog, count: int, entries: list[bytes] | None = None) -> list[UUID]:
    streams = [new() for _ in range(count)]
    await asyncio.gather(*(log.open(stream, "me") for stream in streams))
    await asyncio.gather(
        *(log.close(s.stream_id, 1, 1, entries or [b"x"], "complete") for s in streams)
    )
    return [stream.stream_id for stream in streams]


async def steps_of_expiry(log: SQLiteStreamLog) -> int:
    """Return how many hundreds of instructions SQLite needs for an expiry."""
    steps: list[None] = []
    await log._worker.submit(lambda db: db.set_progress_handler(lambda: steps.append(None), 100))
    await log.expire(900, 86_400)
    await log._worker.submit(lambda db: db.set_progress_handler(None, 0))
    return len(steps)


@aio
async def test_an_expiry_costs_what_expires(tmp_path: Path) -> None:
    clock = Clock()
    log = SQLiteStreamLog(tmp_path / "l.db", clock=clock)
    await log.start("me")
    idle = await steps_of_expiry(log)
    await ended(log, 1000)
    clock.forward(1000)
    assert await steps_of_expiry(log) > 100
    await ended(log, 1000)
    # A thousand streams without entries are known, and as many with entries; none is looked at.
    assert await steps_of_expiry(log) <= idle + 5
    await log.stop("me")


@aio
async def test_the_first_turns_of_a_long_conversation_are_looked_at_once(tmp_path: Path) -> None:
    clock = Clock()
    log = SQLiteStreamLog(tmp_path / "l.db", clock=clock)
    await log.start("me")
    idle = await steps_of_expiry(log)
    talk, short = Conversation("p", "goes on"), Conversation("p", "has ended")
    await log.add_turn(short, uuid4(), b"x")
    for number in range(200):
        await log.add_turn(talk, uuid4(), b"%d" % number)
    clock.forward(86_000)
    await log.add_turn(talk, uuid4(), b"the latest")
    clock.forward(500)
    assert await steps_of_expiry(log) > idle + 20
    assert await steps_of_expiry(log) <= idle + 5
    assert list(await log.turns(short, 10)) == []
    kept = [b"%d" % number for number in range(200)]
    assert list(await log.turns(talk, 1000)) == [*kept, b"the latest"]
    clock.forward(86_000)
    await log.expire(900, 86_400)
    assert list(await log.turns(talk, 1000)) == []
    await log.stop("me")


@aio
async def test_appends_get_in_between_the_steps_of_an_expiry(tmp_path: Path) -> None:
    clock = Clock()
    log = SQLiteStreamLog(tmp_path / "l.db", clock=clock)
    await log.start("me")
    running = new()
    await log.open(running, "me")
    await ended(log, 300)
    clock.forward(1000)
    expiring = asyncio.ensure_future(log.expire(900, 86_400))
    for seq in range(1, 6):
        await log.append(running.stream_id, 1, seq, [b"x"])
        assert not expiring.done()
    await expiring
    await log.stop("me")


@pytest.mark.parametrize(
    ("entry", "count", "slowly"),
    [(b"x", 2500, True), (bytes(2000), 2500, False), (bytes(300_000), 12, False)],
)
@aio
async def test_a_large_stream_expires_in_steps_and_is_gone_with_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: bytes, count: int, slowly: bool
) -> None:
    if slowly:  # then a run has few entries
        monkeypatch.setattr("coreason_client.server.log._staging._RUN_ENTRIES", 1)
    clock = Clock()
    log = SQLiteStreamLog(tmp_path / "l.db", clock=clock)
    log._file.max_staged = 1
    await log.start("me")
    [large] = await ended(log, 1, [entry] * count)
    [small] = await ended(log, 1)
    clock.forward(1000)
    steps = 0
    left: list[int] = []

    def entries_left(db: sqlite3.Connection) -> int:
        return int(db.execute("SELECT COUNT(*) FROM runs").fetchone()[0])

    while await log._drop_entries(clock() - 900, 50):
        steps += 1
        left.append(await log._worker.submit(entries_left))
        meta = await log.meta(large)
        assert meta.body_gone
        with pytest.raises(PositionGone):
            await log.read(large, 0, 10, 0)
        assert (await log.read(large, count, 10, 0)).ended
    assert steps > 2
    assert left == sorted(set(left), reverse=True)
    assert left[-1] == 0
    assert (await log.meta(small)).body_gone
    await log.stop("me")


@aio
async def test_an_expiry_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "l.db"
    log = SQLiteStreamLog(path, clock=clock)
    await log.start("me")
    [large] = await ended(log, 1, [b"x"] * 2500)
    clock.forward(100_000)
    assert await log._drop_entries(clock() - 900, 50) == 1
    await log.stop("me")
    await log.start("me")
    await log.expire(900, 86_400)
    with pytest.raises(UnknownStream):
        await log.meta(large)
    await log.stop("me")
    db = sqlite3.connect(path)
    assert db.execute("SELECT COUNT(*) FROM runs").fetchone() == (0,)
    db.close()


@aio
async def test_a_step_that_fails_is_tried_with_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    log = SQLiteStreamLog(tmp_path / "l.db", clock=clock)
    await log.start("me")
    ids = await ended(log, 3)
    clock.forward(1000)
    drop_entries, most_allowed = _sql.drop_entries, 1

    def drop(db: _sql.LogConnection, ended_until: float, most: int) -> list[UUID]:
        if most > most_allowed:
            raise sqlite3.OperationalError("database or disk is full")
        return drop_entries(db, ended_until, most)

    monkeypatch.setattr(_sql, "drop_entries", drop)
    await log.expire(900, 86_400)
    assert [(await log.meta(id_)).body_gone for id_ in ids] == [True] * 3
    most_allowed = 0
    with pytest.raises(LogUnavailable, match="disk is full"):
        await log.expire(900, 86_400)
    await log.stop("me")


# The cache.

ID = UUID(int=1)


def test_a_cache_of_no_bytes_holds_nothing() -> None:
    tails = RecentEntries(0)
    for entry in (b"", b"x"):
        tails.add(ID, 1, [entry], ended=False)
        assert tails.page(ID, 0, 10) is None


def test_a_tail_makes_pages_no_longer_than_the_store_does() -> None:
    tails = RecentEntries(10 * PAGE_BYTES)
    tails.add(ID, 1, [bytes(PAGE_BYTES // 2)] * 4, ended=True)
    page = tails.page(ID, 0, 10)
    assert page is not None
    assert (len(page.entries), page.ended) == (3, False)
    page = tails.page(ID, 3, 10)
    assert page is not None
    assert (len(page.entries), page.ended) == (1, True)


def test_a_tail_knows_what_it_does_not_hold() -> None:
    tails = RecentEntries(10_000)
    assert tails.page(ID, 0, 10) is None
    tails.add(ID, 5, [b"5", b"6"], ended=False)
    assert tails.page(ID, 3, 10) is None
    page = tails.page(ID, 4, 10)
    assert page is not None
    assert (list(page.entries), page.ended) == ([b"5", b"6"], False)
    tails.add(ID, 7, [b"7"], ended=True)
    page = tails.page(ID, 5, 1)
    assert page is not None
    assert (list(page.entries), page.ended) == ([b"6"], False)
    page = tails.page(ID, 5, 10)
    assert page is not None
    assert (list(page.entries), page.ended) == ([b"6", b"7"], True)
    page = tails.page(ID, 7, 10)
    assert page is not None
    assert (list(page.entries), page.ended) == ([], True)


def test_a_gap_starts_a_new_tail() -> None:
    tails = RecentEntries(10_000)
    tails.add(ID, 1, [b"1"], ended=False)
    tails.add(ID, 9, [b"9"], ended=False)
    assert tails.page(ID, 1, 10) is None
    page = tails.page(ID, 8, 10)
    assert page is not None
    assert list(page.entries) == [b"9"]


def test_recent_entries_stay_within_their_bounds() -> None:
    tails = RecentEntries(4 * PAGE_BYTES)
    entry = b"x" * (PAGE_BYTES // 8)
    for seq in range(1, 200):
        tails.add(ID, seq, [entry], ended=False)
        page = tails.page(ID, seq - 1, 10)
        assert page is not None
        assert list(page.entries) == [entry]
        assert tails._size <= 2 * PAGE_BYTES
    for number in range(2, 50):
        tails.add(UUID(int=number), 1, [entry] * 8, ended=True)
        assert tails._size <= 4 * PAGE_BYTES
    assert tails.page(ID, 198, 10) is None
    for number in range(1, 50):
        tails.drop(UUID(int=number))
    assert tails._size == 0
