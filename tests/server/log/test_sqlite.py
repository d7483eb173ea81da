"""Only the SQLite log has a file, its lock, its thread and its cache."""

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import Fenced, LogUnavailable
from coreason_client.server.log import Claim, NewStream, SQLiteStreamLog, _sql

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
    claims = list(await log.claim_lost("me", 10))
    assert claims == [Claim(lost.stream_id, (await log.meta(lost.stream_id)).epoch, 2)]
    assert list((await log.read(lost.stream_id, 0, 10, 0)).entries) == [b"a", b"b"]
    assert (await log.read(done.stream_id, 0, 10, 0)).ended
    await log.stop("me")


READ = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0.05)
try:
    db.execute("SELECT COUNT(*) FROM streams").fetchone()
except sqlite3.OperationalError as error:
    print(error)
"""
HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA locking_mode = EXCLUSIVE")
db.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


def command(source: str, path: Path) -> list[str]:
    """Return the command of a process that imports nothing but the standard library."""
    return [sys.executable, "-I", "-S", "-c", source, str(path)]


def read(path: Path) -> bytes:
    """Return why another process cannot read a file, empty if it can."""
    return subprocess.run(command(READ, path), capture_output=True, check=True).stdout


def hold(path: Path) -> "subprocess.Popen[bytes]":
    """Start a process that locks a file until it is killed."""
    return subprocess.Popen(command(HOLD, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@aio
async def test_the_file_of_a_running_log_cannot_be_read_by_another_process(tmp_path: Path) -> None:
    log = await start(tmp_path / "l.db")
    assert await asyncio.to_thread(read, tmp_path / "l.db") == b"database is locked\n"
    await log.stop("me")
    assert await asyncio.to_thread(read, tmp_path / "l.db") == b""


@aio
async def test_a_file_that_another_process_uses_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    await (await start(path)).stop("me")
    with hold(path) as holder:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"held\n"
        with pytest.raises(
            LogUnavailable,
            match="is in use by another process: a SQLite log serves one process",
        ):
            await start(path)
        holder.kill()
    await (await start(path)).stop("me")


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


# Expiry.


async def ended(log: SQLiteStreamLog, count: int, entries: list[bytes] | None = None) -> list[UUID]:
    streams = [new() for _ in range(count)]
    await asyncio.gather(*(log.open(stream, "me") for stream in streams))
    await asyncio.gather(
        *(log.close(s.stream_id, 1, 1, entries or [b"x"], "complete") for s in streams)
    )
    return [stream.stream_id for stream in streams]


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


@aio
async def test_damaged_entries_are_an_error_with_one_sentence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = await start(tmp_path / "log.db")
    damaged, whole = await ended(log, 2, [b"one", b"two"])
    await log.stop("me")
    with sqlite3.connect(tmp_path / "log.db") as db:
        db.execute(
            "UPDATE runs SET run = substr(run, 1, 10) WHERE n ="
            " (SELECT n FROM streams WHERE stream_id = ?)",
            (damaged.bytes,),
        )
    db.close()
    log = await start(tmp_path / "log.db")
    for _ in range(2):
        with pytest.raises(LogUnavailable, match=r"of the stream .* are damaged in the file"):
            await log.read(damaged, 0, 10, 0)
    assert caplog.records == []  # the caller writes the line
    assert list((await log.read(whole, 0, 10, 0)).entries) == [b"one", b"two"]
    await log.stop("me")
