"""Staged entries: their format, what is kept in memory, and what is in the file after a crash."""

import shutil
import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coreason_client.server.errors import LogUnavailable
from coreason_client.server.log import _file, _sql
from coreason_client.server.log._file import LogFile
from coreason_client.server.log._staging import (
    StagedEntries,
    pack_run,
    pack_runs,
    unpack_record,
    unpack_run,
)

A, B = UUID(int=1), UUID(int=2)
Entries = st.lists(st.binary(max_size=40), min_size=1, max_size=6)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_a_run_comes_back_as_it_was(entries: list[bytes]) -> None:
    assert unpack_run(pack_run(entries)) == entries


@pytest.mark.parametrize(
    ("sizes", "runs"),
    [
        ([], []),
        ([1], [(1, 1)]),
        ([0] * 256, [(1, 256)]),
        ([0] * 257, [(1, 256), (257, 1)]),
        ([65_536], [(1, 1)]),
        ([65_536, 0], [(1, 2)]),
        ([65_536, 1], [(1, 1), (2, 1)]),
        ([1, 65_536], [(1, 1), (2, 1)]),
        ([200_000, 200_000, 1], [(1, 1), (2, 1), (3, 1)]),
        ([30_000] * 5, [(1, 2), (3, 2), (5, 1)]),
    ],
)
def test_runs_are_bounded_in_entries_and_bytes(
    sizes: list[int], runs: list[tuple[int, int]]
) -> None:
    packed = list(pack_runs(1, (bytes(size) for size in sizes)))
    assert [(first, len(unpack_run(run))) for first, run in packed] == runs
    assert [len(entry) for _, run in packed for entry in unpack_run(run)] == sizes


@given(st.data(), st.lists(st.tuples(st.sampled_from([A, B]), Entries), min_size=1, max_size=5))
def test_a_damaged_record_is_an_error_and_never_another_one(
    data: st.DataObject, appends: list[tuple[UUID, list[bytes]]]
) -> None:
    staged = StagedEntries()
    for number, (stream_id, entries) in enumerate(appends, 1):
        staged.add(stream_id, number, entries)
    record = staged.take_record()
    read = list(unpack_record(record))
    assert read == [(id_, n, list(e)) for n, (id_, e) in enumerate(appends, 1)]
    cut = data.draw(st.integers(0, len(record) - 1))
    try:
        part = list(unpack_record(record[:cut]))
    except ValueError:
        return
    assert part == read[: len(part)]  # it was cut between two appends


@pytest.mark.parametrize("garbage", [b"\1", b"\1\0\0\0", b"\1\0\0\0\5\0\0\0abcd", b"\xff" * 9])
def test_what_is_not_a_run_is_an_error(garbage: bytes) -> None:
    with pytest.raises(ValueError, match="truncated"):
        unpack_run(garbage)
    with pytest.raises(ValueError, match="truncated"):
        list(unpack_record(bytes(24) + garbage))
    with pytest.raises(ValueError, match="followed by other data"):
        unpack_run(pack_run([b"x"]) + b"y")


def test_staged_entries_are_found_by_their_numbers() -> None:
    staged = StagedEntries()
    assert staged.last_seq(A) is None
    assert list(staged.after(A, 0)) == []
    assert staged.take_record() == b""
    staged.add(A, 7, [b"7"])
    staged.add(B, 1, [b"1", b"2"])
    staged.add(A, 8, [b"8", b"9"])
    assert (staged.last_seq(A), staged.last_seq(B)) == (9, 2)
    assert [list(staged.after(A, seq)) for seq in (0, 6, 7, 9, 12)] == [
        [b"7", b"8", b"9"],
        [b"7", b"8", b"9"],
        [b"8", b"9"],
        [],
        [],
    ]
    assert list(staged) == [(A, 7, [b"7", b"8", b"9"]), (B, 1, [b"1", b"2"])]
    assert (staged.count, staged.size, staged.dropped) == (5, 5, False)
    again = StagedEntries()
    again.load([staged.take_record()])
    assert list(again) == list(staged)
    assert (again.count, again.size, again.take_record()) == (5, 5, b"")
    staged.drop(UUID(int=3))
    assert not staged.dropped
    staged.drop(A)
    assert (list(staged), staged.dropped) == ([(B, 1, [b"1", b"2"])], True)
    staged.clear()
    assert (list(staged), staged.count, staged.size, staged.dropped) == ([], 0, 0, False)


@pytest.fixture
def file(tmp_path: Path) -> LogFile:
    return LogFile(str(tmp_path / "l.db"), synchronous="NORMAL", lock_timeout=0.05)


def open_stream(db: _sql.LogConnection, stream_id: UUID) -> None:
    db.execute(
        "INSERT INTO streams (stream_id, principal, request_id, fingerprint, epoch, last_seq,"
        " opened_at, cancel_requested, body_gone, lease_until)"
        " VALUES (?, 'p', ?, 'f', 1, 0, 0, 0, 0, 0)",
        (stream_id.bytes, stream_id.bytes),
    )


def add(file: LogFile, db: _sql.LogConnection, stream_id: UUID, seq: int, entry: bytes) -> None:
    with file.transaction(db):
        _sql.append(db, stream_id, 1, seq, [entry])


def test_a_damaged_record_is_refused_at_the_start(file: LogFile) -> None:
    db = file.connect()
    db.execute("INSERT INTO staged (record) VALUES (x'010203')")
    db.close()
    with pytest.raises(LogUnavailable, match=r"damaged \(the stored entries are truncated\)"):
        file.connect()


def test_streams_that_append_share_pages(file: LogFile) -> None:
    """A commit of many streams writes few pages, and a move stores each stream by itself."""
    db = file.connect()
    streams = [UUID(int=number) for number in range(100)]
    with file.transaction(db):
        for stream_id in streams:
            open_stream(db, stream_id)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.transaction(db):
        for stream_id in streams:
            _sql.append(db, stream_id, 1, 1, [bytes(200)])
    pages = Path(f"{file.path}-wal").stat().st_size // 4096
    assert pages < 20  # of 100 entries in 100 streams
    assert db.execute("SELECT COUNT(*) FROM runs").fetchone() == (0,)
    file.max_staged = 100
    file.maintain(db)
    assert db.execute("SELECT COUNT(*) FROM runs").fetchone() == (100,)
    assert db.execute("SELECT COUNT(*) FROM staged").fetchone() == (0,)
    file.close(db)


def test_many_bytes_are_moved_like_many_entries(file: LogFile) -> None:
    db = file.connect()
    with file.transaction(db):
        open_stream(db, A)
        _sql.append(db, A, 1, 1, [bytes(_file.MAX_STAGED_BYTES - 1)])
    file.maintain(db)
    assert db.staged.count == 1
    add(file, db, A, 2, b"x")
    file.maintain(db)
    assert db.staged.count == 0
    assert [len(entry) for entry in _sql.read_page(db, A, 0, 1, 10).entries] == [
        _file.MAX_STAGED_BYTES - 1
    ]
    assert list(_sql.read_page(db, A, 1, 1, 10).entries) == [b"x"]
    file.close(db)


def test_a_move_that_fails_is_tried_again_later(
    file: LogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 1)).__next__
    monkeypatch.setattr("coreason_client.server.log._file.time.monotonic", lambda: clock() / 100)
    move_staged, attempts = _sql.move_staged, 0

    def fail(db: _sql.LogConnection) -> None:
        nonlocal attempts
        attempts += 1
        move_staged(db)
        raise sqlite3.OperationalError("no")

    monkeypatch.setattr(_sql, "move_staged", fail)
    db = file.connect()
    with file.transaction(db):
        open_stream(db, A)
    file.max_staged = 1
    for seq in range(1, 11):
        add(file, db, A, seq, b"%d" % seq)
        file.maintain(db)
    assert attempts == 2  # at once, and then not for a second
    monkeypatch.setattr(_sql, "move_staged", move_staged)
    assert list(_sql.read_page(db, A, 8, 1, 10).entries) == [b"9", b"10"]
    for _ in range(100):
        file.maintain(db)
    assert db.staged.count == 0
    assert list(_sql.read_page(db, A, 8, 1, 10).entries) == [b"9", b"10"]
    file.close(db)


class Undo(Exception):
    """Rolls a transaction back."""


class CrashingLog(RuleBasedStateMachine):
    """Appends, moves, expiries, undone transactions and crashes, compared with plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.file = LogFile(str(self.folder / "l.db"), synchronous="NORMAL", lock_timeout=0.05)
        self.file.max_staged = 8
        self.db = self.file.connect()
        self.streams: dict[UUID, list[bytes]] = {}
        self.ended: set[UUID] = set()
        self.gone: set[UUID] = set()

    def teardown(self) -> None:
        self.db.close()
        shutil.rmtree(self.folder)

    @initialize()
    def two_streams(self) -> None:
        with self.file.transaction(self.db):
            for stream_id in (A, B):
                open_stream(self.db, stream_id)
                self.streams[stream_id] = []

    def add(self, stream_id: UUID, entries: list[bytes]) -> None:
        _sql.append(self.db, stream_id, 1, len(self.streams[stream_id]) + 1, entries)

    @rule(appends=st.lists(st.tuples(st.sampled_from([A, B]), Entries), min_size=1, max_size=4))
    def commit(self, appends: list[tuple[UUID, list[bytes]]]) -> None:
        with self.file.transaction(self.db):
            for stream_id, entries in appends:
                if stream_id not in self.ended:
                    self.add(stream_id, entries)
                    self.streams[stream_id] += entries

    @rule(stream_id=st.sampled_from([A, B]), entries=Entries, committing=st.booleans())
    def undo(self, stream_id: UUID, entries: list[bytes], committing: bool) -> None:
        with suppress(Undo), self.file.transaction(self.db):
            if stream_id not in self.ended:
                self.add(stream_id, entries)
            if committing:
                _sql.write_staged(self.db)
            raise Undo

    @rule()
    def maintain(self) -> None:
        self.file.maintain(self.db)

    @rule()
    def crash(self) -> None:
        # The connection is closed without a move, as when the process is killed.
        self.db.close()
        self.db = self.file.connect()

    @rule()
    def stop_and_start(self) -> None:
        self.file.close(self.db)
        self.db = self.file.connect()
        assert self.db.staged.count == 0

    @rule(stream_id=st.sampled_from([A, B]))
    def end(self, stream_id: UUID) -> None:
        if stream_id not in self.ended:
            with self.file.transaction(self.db):
                self.add(stream_id, [b"end"])
                self.streams[stream_id].append(b"end")
                _sql.end_stream(self.db, stream_id, len(self.streams[stream_id]), "complete", 0)
            self.ended.add(stream_id)

    @rule(undone=st.booleans())
    def expire(self, undone: bool) -> None:
        with suppress(Undo), self.file.transaction(self.db):
            dropped = _sql.drop_entries(self.db, 0, 50)
            if undone:
                raise Undo
            self.gone.update(dropped)

    @invariant()
    def every_entry_is_found(self) -> None:
        if not self.streams:
            return
        with self.file.transaction(self.db):
            for stream_id, entries in self.streams.items():
                meta = _sql.load_meta(self.db, stream_id)
                assert meta.last_seq == len(entries)
                assert meta.body_gone == (stream_id in self.gone)
                if stream_id in self.gone:
                    continue
                for after in range(0, len(entries) + 1, 3):
                    page = _sql.read_page(self.db, stream_id, after, 1, 5)
                    assert list(page.entries) == entries[after : after + 5]
                    at_end = after + 5 >= len(entries)
                    assert page.ended == (stream_id in self.ended and at_end)


CrashingLog.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_no_crash_loses_or_doubles_an_entry = CrashingLog.TestCase
