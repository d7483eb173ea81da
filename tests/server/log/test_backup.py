"""Copies of a SQLite log, while a server uses it and while none does."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log import NewStream, SQLiteStreamLog, _backup
from coreason_client.server.log._backup import back_up

from ..aio import aio

ENTRY = b"x" * 2000
PATIENCE = 20.0


async def fill(log: SQLiteStreamLog, streams: int, entries: int) -> list[UUID]:
    ids: list[UUID] = []
    for _ in range(streams):
        new = NewStream(uuid4(), "p", uuid4(), "f")
        await log.open(new, "me")
        await log.append(new.stream_id, 1, 1, [ENTRY] * entries)
        ids.append(new.stream_id)
    return ids


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - another thread changes it
            await asyncio.sleep(0.001)


async def lengths(path: Path, ids: list[UUID]) -> list[int]:
    """Restore a copy: start a log with it, and read every stream."""
    log = SQLiteStreamLog(path)
    await log.start("restored")
    try:
        found = []
        for stream_id in ids:
            last = 0
            while entries := (await log.read(stream_id, last, 1000, 0)).entries:
                assert set(entries) == {ENTRY}
                last += len(entries)
            found.append(last)
        return found
    finally:
        await log.stop("restored")


@aio
async def test_the_copy_of_a_running_log_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    log = SQLiteStreamLog(tmp_path / "log.db")
    await log.start("me")
    ids = await fill(log, 20, 30)
    writing = True
    acknowledged = 30
    waits: list[float] = []

    async def write() -> None:
        nonlocal acknowledged
        while writing:
            before = time.perf_counter()
            await log.append(ids[0], 1, acknowledged + 1, [ENTRY])
            waits.append(time.perf_counter() - before)
            acknowledged += 1
            await asyncio.sleep(0)

    writer = asyncio.create_task(write())
    await asyncio.sleep(0.05)
    at_start = acknowledged
    size = await asyncio.to_thread(back_up, tmp_path / "log.db", tmp_path / "copy.db", PATIENCE)
    writing = False
    await writer
    assert len(waits) > 100, "appends went on during the copy"
    await log.stop("me")
    assert (tmp_path / "copy.db").stat().st_size == size
    assert names(tmp_path) == ["copy.db", "log.db"], "no other file stays"
    first, *others = await lengths(tmp_path / "copy.db", ids)
    assert others == [30] * 19
    assert at_start <= first <= acknowledged


@aio
async def test_an_idle_server_makes_a_copy_too(tmp_path: Path) -> None:
    log = SQLiteStreamLog(tmp_path / "log.db")
    await log.start("me")
    ids = await fill(log, 2, 3)
    await asyncio.to_thread(back_up, tmp_path / "log.db", tmp_path / "copy.db", PATIENCE)
    await log.stop("me")
    assert await lengths(tmp_path / "copy.db", ids) == [3, 3]


@aio
async def test_a_log_that_no_server_uses_is_copied_with_its_write_ahead_log(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys, uuid\n"
        "from coreason_client.server.log import NewStream, SQLiteStreamLog\n"
        "async def main():\n"
        "    log = SQLiteStreamLog(sys.argv[1])\n"
        "    await log.start('me')\n"
        "    new = NewStream(uuid.UUID(int=1), 'p', uuid.UUID(int=2), 'f')\n"
        "    await log.open(new, 'me')\n"
        "    await log.append(new.stream_id, 1, 1, [b'x' * 2000] * 5)\n"
        "    os._exit(0)\n"
        "asyncio.run(main())\n"
    )
    source = tmp_path / "log.db"
    subprocess.run(  # noqa: ASYNC221 - nothing else runs here
        [sys.executable, "-c", program, str(source)], check=True, timeout=PATIENCE
    )
    assert (tmp_path / "log.db-wal").stat().st_size
    back_up(source, tmp_path / "copy.db", PATIENCE)
    assert await lengths(tmp_path / "copy.db", [UUID(int=1)]) == [5]
    assert await lengths(source, [UUID(int=1)]) == [5], "the log itself was not changed"


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("mine")
    (tmp_path / "log.db").touch()
    with pytest.raises(FileExistsError):
        back_up(tmp_path / "log.db", tmp_path / "copy.db", PATIENCE)
    assert (tmp_path / "copy.db").read_text() == "mine"


@pytest.mark.parametrize("content", [b"", b"text " * 1000])
def test_a_file_that_is_not_a_log_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log.db").write_bytes(content)
    with pytest.raises(LogUnavailable, match=r"is not a (stream log|database)"):
        back_up(tmp_path / "log.db", tmp_path / "copy.db", PATIENCE)
    assert names(tmp_path) == ["log.db"]


@aio
async def test_a_process_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backup, "_ACCEPT_SECONDS", 0.2)
    log = SQLiteStreamLog(tmp_path / "log.db")
    await log.start("me")
    await log.stop("me")
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LogUnavailable, match="does not answer"):
            back_up(tmp_path / "log.db", tmp_path / "copy.db", PATIENCE)
        holder.execute("ROLLBACK")
    assert names(tmp_path) == ["log.db"]


@aio
async def test_a_withdrawn_request_ends_the_copy_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backup, "_PAGES_PER_STEP", 1)
    monkeypatch.setattr(_backup, "_CHECK_SECONDS", 0.0)
    log = SQLiteStreamLog(tmp_path / "log.db")
    await log.start("me")
    ids = await fill(log, 10, 100)
    request, report = _backup._files(str(tmp_path / "log.db"))
    target = tmp_path / "copy.db"
    target.touch()
    request.write_text(json.dumps({"id": "1", "target": str(target)}))
    await fill(log, 1, 1)  # begins the copy
    request.unlink()
    await until(lambda: _backup._read_report(report, "1").get("error"))
    assert _backup._read_report(report, "1")["error"] == "the request was withdrawn"
    await log.append(ids[0], 1, 101, [ENTRY])
    await log.stop("me")


@aio
async def test_the_server_stops_while_it_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backup, "_PAGES_PER_STEP", 1)
    log = SQLiteStreamLog(tmp_path / "log.db")
    await log.start("me")
    ids = await fill(log, 50, 100)
    copying = asyncio.create_task(
        asyncio.to_thread(back_up, tmp_path / "log.db", tmp_path / "copy.db", PATIENCE)
    )
    request, report = _backup._files(str(tmp_path / "log.db"))
    await until(lambda: report.exists())
    await log.stop("me")
    try:
        await copying
    except LogUnavailable as error:
        assert "the server is being stopped" in str(error)  # noqa: PT017 - it may be done already
        assert not (tmp_path / "copy.db").exists()
    assert not request.exists()
    assert await lengths(tmp_path / "log.db", ids) == [100] * 50


@aio
async def test_a_request_is_only_served_if_it_is_fresh_and_its_target_empty(tmp_path: Path) -> None:
    log = SQLiteStreamLog(tmp_path / "log.db")
    await log.start("me")
    await fill(log, 1, 1)
    request, report = _backup._files(str(tmp_path / "log.db"))
    target = tmp_path / "mine.db"
    target.write_text("mine")
    request.write_text(json.dumps({"id": "1", "target": str(target)}))
    await until(lambda: _backup._read_report(report, "1"))
    assert "is not empty" in str(_backup._read_report(report, "1")["error"])
    assert target.read_text() == "mine"
    request.write_text(json.dumps({"id": "2", "target": str(target)}))
    os.utime(request, (0, 0))
    await until(lambda: not request.exists())
    assert not _backup._read_report(report, "2")
    await log.stop("me")


@aio
async def test_two_backups_at_once_are_refused(tmp_path: Path) -> None:
    log = SQLiteStreamLog(tmp_path / "log.db")
    await log.start("me")
    request, _ = _backup._files(str(tmp_path / "log.db"))
    request.write_text("{")
    with pytest.raises(LogUnavailable, match="another backup of this log is running"):
        await asyncio.to_thread(back_up, tmp_path / "log.db", tmp_path / "copy.db", PATIENCE)
    assert request.exists()
    os.utime(request, (0, 0))  # that of a process which was killed
    await asyncio.to_thread(back_up, tmp_path / "log.db", tmp_path / "copy.db", PATIENCE)
    await log.stop("me")
