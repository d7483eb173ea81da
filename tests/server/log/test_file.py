"""The file of the SQLite log: a full disk, a file that is lost, and one that cannot be written."""

import asyncio
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

import httpx2
import pytest

from coreason_client.server import AgentStream
from coreason_client.server.errors import LogUnavailable, PositionGone, UnknownStream
from coreason_client.server.log import NewStream, SQLiteStreamLog
from coreason_client.server.log._file import RESERVE_BYTES, LogFile
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import aio, turns
from ..conftest import Serve
from .backends import Clock


def new() -> NewStream:
    return NewStream(uuid4(), "p", uuid4(), "f")


async def begin(path: Path, clock: Clock | None = None) -> SQLiteStreamLog:
    log = SQLiteStreamLog(path, lock_timeout=0.05, clock=clock or Clock())
    await log.start("me")
    return log


async def ended(log: SQLiteStreamLog, entries: list[bytes]) -> UUID:
    stream = new()
    await log.open(stream, "me")
    await log.close(stream.stream_id, 1, 1, entries, "complete")
    return stream.stream_id


# Transactions.


@pytest.fixture
def file(tmp_path: Path) -> LogFile:
    return LogFile(str(tmp_path / "l.db"), synchronous="NORMAL", lock_timeout=0.05)


def questions(db: sqlite3.Connection) -> list[int]:
    return [n for (n,) in db.execute("SELECT n FROM questions ORDER BY n")]


def test_a_transaction_is_committed_or_rolled_back(file: LogFile) -> None:
    db = file.connect()
    with file.transaction(db):
        db.execute("INSERT INTO questions VALUES (1, 'q')")
    assert (db.in_transaction, db.stale) == (False, False)
    with pytest.raises(ZeroDivisionError), file.transaction(db):
        db.execute("INSERT INTO questions VALUES (2, 'q')")
        raise ZeroDivisionError
    # What the connection has cached may be of the transaction that was rolled back.
    assert (db.in_transaction, db.stale, questions(db)) == (False, True, [1])
    with file.transaction(db):
        assert not db.stale
    db.close()


def test_a_transaction_that_could_not_be_rolled_back_is_not_continued(file: LogFile) -> None:
    db = file.connect()
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO questions VALUES (1, 'of the failed transaction')")
    with file.transaction(db):
        db.execute("INSERT INTO questions VALUES (2, 'q')")
    assert questions(db) == [2]
    db.close()


def test_a_transaction_whose_commit_fails_is_rolled_back(file: LogFile) -> None:
    db = file.connect()
    db.execute("PRAGMA foreign_keys = ON")
    deferred = "DEFERRABLE INITIALLY DEFERRED"
    db.execute(f"CREATE TABLE checked (a PRIMARY KEY, b REFERENCES checked (a) {deferred})")
    with pytest.raises(sqlite3.IntegrityError), file.transaction(db):
        db.execute("INSERT INTO questions VALUES (1, 'q')")
        db.execute("INSERT INTO checked VALUES (1, 2)")  # the commit finds that 2 does not exist
    assert (db.in_transaction, questions(db)) == (False, [])
    db.close()


# A full disk.


class Disk(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set how many bytes are free on the disk, as far as the log can see."""

    def set_free(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(1 << 40, 0, free))

    return set_free


async def fill(log: SQLiteStreamLog) -> tuple[list[UUID], LogUnavailable]:
    """Append until the log refuses."""
    ids: list[UUID] = []
    for _ in range(1000):
        try:
            ids.append(await ended(log, [bytes(3000)] * 20))
        except LogUnavailable as error:
            return ids, error
    raise AssertionError("the disk was never full")


@pytest.mark.parametrize("free", [0, RESERVE_BYTES - 1])
@aio
async def test_expiry_frees_space_on_a_full_disk(
    tmp_path: Path,
    disk: Callable[[int], None],
    free: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("coreason_client.server.log._file._SPACE_CHECK_SECONDS", 0.0)
    clock = Clock()
    log = await begin(tmp_path / "l.db", clock)
    first = [await ended(log, [bytes(3000)] * 20) for _ in range(20)]
    size = 0
    with caplog.at_level(logging.INFO, "coreason_client.server"):
        disk(free)
        for _ in range(3):  # without a restart, as often as it is needed
            more, error = await fill(log)
            assert "its disk is full" in str(error)
            assert "free some space or shorten `retention`" in str(error)
            assert isinstance(error.__cause__, sqlite3.OperationalError)
            size = (tmp_path / "l.db").stat().st_size
            clock.forward(1000)
            await log.expire(900, 86_400)
            for id_ in [*first, *more]:
                with pytest.raises(PositionGone):
                    await log.read(id_, 0, 10, 0)
            again = await ended(log, [b"x"])
            assert list((await log.read(again, 0, 10, 0)).entries) == [b"x"]
            assert (tmp_path / "l.db").stat().st_size == size
        assert caplog.text.count("nearly full") == 1
        disk(2 * RESERVE_BYTES)
        for _ in range(100):
            await ended(log, [bytes(3000)] * 20)
        await log.stop("me")
    assert (tmp_path / "l.db").stat().st_size > size
    assert caplog.text.count("has space again") == 1


@aio
async def test_a_full_disk_that_seems_to_have_space_is_logged_once(
    tmp_path: Path, disk: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    """As with a quota: SQLite finds no space, and the disk shows some."""
    disk(1 << 39)
    clock = Clock()
    log = await begin(tmp_path / "l.db", clock)
    await ended(log, [bytes(3000)] * 100)

    def limit(db: sqlite3.Connection) -> None:
        db.execute("PRAGMA max_page_count = 1")

    await log._worker.submit(limit)
    with caplog.at_level(logging.INFO, "coreason_client.server"):
        for _ in range(3):
            _, error = await fill(log)
            assert "its disk is full" in str(error)
    assert len(caplog.records) == 1
    clock.forward(1000)
    await log.expire(900, 86_400)
    await ended(log, [bytes(3000)] * 20)
    await log.stop("me")


FILL_A_DISK = """
import asyncio, os, sys
from pathlib import Path
from uuid import uuid4
from coreason_client.server import LogUnavailable
from coreason_client.server.log import NewStream, SQLiteStreamLog

folder = Path(sys.argv[1])
now = 1e6

async def ended(log):
    stream = NewStream(uuid4(), "p", uuid4(), "f")
    await log.open(stream, "me")
    await log.close(stream.stream_id, 1, 1, [os.urandom(3000)] * 20, "complete")

async def fill(log):
    for count in range(2000):
        try:
            await ended(log)
        except LogUnavailable as error:
            assert "its disk is full" in str(error), error
            return count
    raise AssertionError("never full")

def take_the_rest():  # as another program might
    try:
        with (folder / "other").open("ab", buffering=0) as other:
            while True:
                other.write(bytes(4096))
    except OSError:
        pass

async def main():
    global now
    idle = SQLiteStreamLog(folder / "idle.db")
    await idle.start("me")
    await idle.stop("me")
    log = SQLiteStreamLog(folder / "l.db", clock=lambda: now)
    await log.start("me")
    assert await fill(log) > 100
    take_the_rest()
    for _ in range(2):
        now += 1000
        await log.expire(900, 86400)
        assert await fill(log) > 100
    await log.stop("me")
    take_the_rest()
    try:
        await idle.start("me")
    except LogUnavailable as error:
        assert "cannot be opened: its disk is full" in str(error), error
        print("recovered, and refused at the start")

asyncio.run(main())
"""


def test_expiry_frees_space_on_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of 24 MiB in memory, in a separate namespace."""
    mount = 'mount -t tmpfs -o size=24m tmpfs "$0"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            [*inside, mount, str(tmp_path)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("this machine lets no process mount a file system of its own")
    done = subprocess.run(
        [*inside, f'{mount} && exec "$1" -c "$2" "$0"', str(tmp_path), sys.executable, FILL_A_DISK],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "recovered, and refused at the start", done.stderr


@aio
async def test_a_large_commit_does_not_make_the_write_ahead_log_large_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 1024 * 1024
    monkeypatch.setattr("coreason_client.server.log._file.WAL_BYTES", limit)
    log = await begin(tmp_path / "l.db")
    stream = new()
    await log.open(stream, "me")
    await log.append(stream.stream_id, 1, 1, [bytes(8 * limit)])
    assert (tmp_path / "l.db-wal").stat().st_size > limit
    for seq in range(2, 5):
        await log.append(stream.stream_id, 1, seq, [b"x"])
    assert (tmp_path / "l.db-wal").stat().st_size <= limit
    await log.stop("me")


# A file that is lost.


def remove(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    shutil.copy(path, other)
    other.replace(path)


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def remove_write_ahead_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


@pytest.mark.parametrize("lose", [remove, move, replace, remove_folder, remove_write_ahead_log])
@aio
async def test_nothing_is_acknowledged_into_a_file_that_is_lost(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    log = await begin(folder / "l.db")
    stream = new()
    await log.open(stream, "me")
    await log.append(stream.stream_id, 1, 1, [b"x"])
    waiting = asyncio.ensure_future(log.read(stream.stream_id, 1, 10, 60.0))
    await turns()
    lose(folder / "l.db")
    with pytest.raises(LogUnavailable, match="deleted, moved or replaced") as caught:
        await log.append(stream.stream_id, 1, 2, [b"y"])
    assert "restart the server" in str(caught.value)
    with pytest.raises(LogUnavailable, match="deleted, moved or replaced"):
        await waiting
    for call in (
        log.meta(stream.stream_id),
        log.read(stream.stream_id, 0, 10, 0),
        log.renew({stream.stream_id: 1}),
        log.expire(0, 0),
        log.open(new(), "me"),
    ):
        with pytest.raises(LogUnavailable, match="deleted, moved or replaced"):
            await call
    folder.mkdir(exist_ok=True)
    await log.start("me")  # anew, in whatever is there now
    again = await ended(log, [b"z"])
    assert list((await log.read(again, 0, 10, 0)).entries) == [b"z"]
    if lose in (remove, move, remove_folder):
        with pytest.raises(UnknownStream):
            await log.read(stream.stream_id, 0, 10, 0)
    elif lose is remove_write_ahead_log:  # the file itself was there, so what was written is too
        assert list((await log.read(stream.stream_id, 0, 1, 0)).entries) == [b"x"]
    await log.stop("me")


def test_a_server_whose_file_is_lost_cuts_its_readers_and_refuses_requests(
    tmp_path: Path, serve: Serve
) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        while True:
            await stream.write("x")
            await asyncio.sleep(0.01)

    peer = serve(agent, log=SQLiteStreamLog(tmp_path / "l.db"))
    with peer.open() as answer:
        answer.until(3)
        (tmp_path / "l.db").unlink()
        with pytest.raises(httpx2.RemoteProtocolError):
            answer.rest()
    assert answer.seqs == list(range(1, len(answer.seqs) + 1))
    refused = peer.ask()
    assert refused.status == 503
    assert refused.problem["type"].endswith(":log-unavailable")


@aio
async def test_a_lost_file_is_found_without_an_append(tmp_path: Path) -> None:
    """The upkeep of an idle server claims and expires."""
    log = await begin(tmp_path / "l.db")
    (tmp_path / "l.db").unlink()
    with pytest.raises(LogUnavailable, match="deleted, moved or replaced"):
        await log.claim_lost("me", 10)
    await log.stop("me")


@aio
async def test_a_log_in_memory_has_no_file_to_lose() -> None:
    log = SQLiteStreamLog(":memory:")
    await log.start("me")
    id_ = await ended(log, [b"x"])
    assert list((await log.read(id_, 0, 10, 0)).entries) == [b"x"]
    await log.stop("me")


@aio
async def test_a_relative_path_is_not_lost_with_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = await begin(Path("l.db"))
    monkeypatch.chdir("/")
    await ended(log, [b"x"])
    await log.stop("me")


# A file that cannot be written.

START = """
import asyncio, os, sys
from coreason_client.server import LogUnavailable, SQLiteStreamLog

async def start(path):
    try:
        await SQLiteStreamLog(path, lock_timeout=0.05).start("me")
    except LogUnavailable as error:
        print(error)

asyncio.run(start(":memory:"))  # imports everything, which another user may not be able to
if os.geteuid() == 0:  # the superuser may write everything
    os.setgid(65534)
    os.setuid(65534)
for path in sys.argv[1:]:
    asyncio.run(start(path))
"""


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_file_that_cannot_be_written_is_found_at_the_start() -> None:
    with tempfile.TemporaryDirectory() as name:  # which other users can reach
        Path(name).chmod(0o755)
        paths = [Path(name) / which / "l.db" for which in ("file", "folder")]

        async def make() -> None:
            for path in paths:
                path.parent.mkdir()
                await (await begin(path)).stop("me")

        asyncio.run(make())
        for path, modes in zip(paths, ((0o444, 0o777), (0o666, 0o555)), strict=True):
            path.chmod(modes[0])
            path.parent.chmod(modes[1])
        done = subprocess.run(
            [sys.executable, "-c", START, *paths], capture_output=True, check=False, text=True
        )
        for path in paths:
            path.parent.chmod(0o777)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    for path, line in zip(paths, lines, strict=True):
        assert line.startswith(f"the log {path} cannot be opened: ")
        assert "this process must be able to write" in line
