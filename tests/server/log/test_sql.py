"""The statements of the SQLite log, on a database in memory."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from uuid import UUID

import pytest

from coreason_client.server.errors import Fenced, OutOfSequence, PositionGone, UnknownStream
from coreason_client.server.log import Conversation, LeaseState, _sql
from coreason_client.server.log._schema import prepare
from coreason_client.server.log._sql import LogConnection
from coreason_client.server.log.base import MAX_TURN_BYTES, MAX_TURNS

A, B, C = (UUID(int=number) for number in (1, 2, 3))
TALK = Conversation("p", "s")


def connect() -> LogConnection:
    """Return an empty log, outside of a transaction."""
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=LogConnection)
    prepare(connection)
    _sql.load_staged(connection)
    return connection


@pytest.fixture
def db() -> Iterator[LogConnection]:
    with closing(connect()) as connection:
        yield connection


def open_stream(
    db: LogConnection, stream_id: UUID, *, lease_until: float = 10.0, question: bytes = b""
) -> None:
    db.execute(
        "INSERT INTO streams (stream_id, principal, request_id, fingerprint, epoch, last_seq,"
        " opened_at, cancel_requested, body_gone, lease_until)"
        " VALUES (?, 'p', ?, 'f', 1, 0, 0, 0, 0, ?)",
        (stream_id.bytes, stream_id.bytes, lease_until),
    )
    if question:
        db.execute(
            "INSERT INTO questions SELECT n, ? FROM streams WHERE stream_id = ?",
            (question, stream_id.bytes),
        )


def move(db: LogConnection) -> None:
    """Store the staged entries by stream."""
    _sql.move_staged(db)
    db.staged.clear()


def end_stream(db: LogConnection, stream_id: UUID, entries: list[bytes], now: float) -> None:
    """Open a stream, append entries, and end it."""
    open_stream(db, stream_id)
    _sql.append(db, stream_id, 1, 1, entries)
    _sql.end_stream(db, stream_id, len(entries), "complete", now)


def count(db: LogConnection, table: str) -> int:
    number: int = db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
    return number


def instructions(db: LogConnection, step: object, *args: object) -> int:
    """Return how many hundreds of instructions of SQLite a statement takes."""
    steps: list[None] = []
    db.set_progress_handler(lambda: steps.append(None), 100)
    assert callable(step)
    step(db, *args)
    db.set_progress_handler(None, 0)
    return len(steps)


# Appending and reading.


def test_an_append_is_checked_against_the_cached_state_as_against_the_table(
    db: LogConnection,
) -> None:
    open_stream(db, A)
    for cached in (False, True):
        first_seq = 1 if not cached else 3
        assert _sql.append(db, A, 1, first_seq, [b"a", b"b"]) == (True, False)
        assert _sql.append(db, A, 1, first_seq, [b"a", b"b"]) == (False, False)
        with pytest.raises(Fenced):
            _sql.append(db, A, 2, first_seq + 2, [b"c"])
        with pytest.raises(OutOfSequence):
            _sql.append(db, A, 1, first_seq + 3, [b"c"])
    assert _sql.load_meta(db, A).last_seq == 4
    with pytest.raises(UnknownStream):
        _sql.append(db, B, 1, 1, [b"x"])


def test_a_requested_cancel_is_reported_by_the_next_append(db: LogConnection) -> None:
    open_stream(db, A)
    assert _sql.append(db, A, 1, 1, [b"a"]) == (True, False)
    _sql.request_cancel(db, A)
    assert _sql.append(db, A, 1, 2, [b"b"]) == (True, True)
    assert _sql.append(db, A, 1, 2, [b"b"]) == (False, True)


def test_a_page_continues_from_the_stored_entries_to_the_staged_ones(db: LogConnection) -> None:
    open_stream(db, A)
    entries = [b"%d" % number for number in range(1, 10)]
    for first, last in ((1, 3), (4, 5)):  # two runs, then staged entries
        _sql.append(db, A, 1, first, entries[first - 1 : last])
        move(db)
    _sql.append(db, A, 1, 6, entries[5:])
    for after_seq in range(len(entries) + 1):
        for limit in (1, 3, 100):
            page = _sql.read_page(db, A, after_seq, 1, limit)
            assert list(page.entries) == entries[after_seq : after_seq + limit]
            assert not page.ended
    with pytest.raises(UnknownStream):
        _sql.read_page(db, B, 0, 1, 1)


# Leases.


@pytest.mark.parametrize(
    ("epoch", "cancel", "ended", "state"),
    [
        (1, False, False, LeaseState.HELD),
        (1, True, False, LeaseState.CANCEL_REQUESTED),
        (2, False, False, LeaseState.LOST),
        (1, True, True, LeaseState.LOST),
    ],
)
def test_a_lease_is_renewed_only_by_its_owner(
    db: LogConnection, epoch: int, cancel: bool, ended: bool, state: LeaseState
) -> None:
    open_stream(db, A, lease_until=5.0)
    if cancel:
        _sql.request_cancel(db, A)
    if ended:
        _sql.append(db, A, 1, 1, [b"x"])
        _sql.end_stream(db, A, 1, "complete", 1.0)
    assert _sql.renew(db, A, epoch, 50.0) is state
    [(lease_until,)] = db.execute("SELECT lease_until FROM streams").fetchall()
    assert lease_until == (5.0 if state is LeaseState.LOST else 50.0)


# Conversations.


def test_the_oldest_turns_beyond_the_limits_are_deleted(db: LogConnection) -> None:
    for number in range(MAX_TURNS + 2):
        _sql.add_turn(db, TALK, UUID(int=number), b"%d" % number, 1, 0.0)
    assert count(db, "turns") == MAX_TURNS
    assert _sql.turns(db, TALK, 2) == [b"%d" % MAX_TURNS, b"%d" % (MAX_TURNS + 1)]
    assert _sql.turns(db, TALK, 0) == _sql.turns(db, TALK, -1) == []
    _sql.add_turn(db, TALK, UUID(int=10**6), bytes(MAX_TURN_BYTES), 1, 0.0)
    assert count(db, "turns") == 1


def test_a_stream_has_one_turn_in_a_conversation(db: LogConnection) -> None:
    for turn in (b"first", b"second"):
        _sql.add_turn(db, TALK, A, turn, 1, 0.0)
    assert _sql.turns(db, TALK, 10) == [b"first"]


def test_old_turns_expire_with_the_latest_turn_of_their_conversation(db: LogConnection) -> None:
    short = Conversation("p", "ended")
    _sql.add_turn(db, short, A, b"x", 1, 1.0)
    for number in range(200):
        _sql.add_turn(db, TALK, UUID(int=number), b"%d" % number, 1, 1.0)
    _sql.add_turn(db, TALK, UUID(int=500), b"latest", 1, 9.0)
    assert _sql.drop_turns(db, 1.0, 150) == 150
    assert _sql.drop_turns(db, 1.0, 150) == 51
    # The turns that were checked and kept have a new time, so they are not checked again.
    assert _sql.drop_turns(db, 8.9, 150) == 0
    assert (_sql.turns(db, short, 10), len(_sql.turns(db, TALK, 1000))) == ([], 201)
    while _sql.drop_turns(db, 9.0, 150):
        pass
    assert count(db, "turns") == 0


# Expiry.


def test_entries_expire_before_their_stream(db: LogConnection) -> None:
    for stream_id, now in ((A, 1.0), (B, 2.0)):
        end_stream(db, stream_id, [b"x"], now)
    open_stream(db, C)
    assert _sql.drop_streams(db, 100.0, 10) == 0  # they still have entries
    assert _sql.drop_entries(db, 1.0, 10) == [A]
    assert _sql.drop_entries(db, 1.0, 10) == []
    assert [_sql.load_meta(db, id_).body_gone for id_ in (A, B, C)] == [True, False, False]
    assert _sql.drop_streams(db, 0.9, 10) == 0
    assert _sql.drop_streams(db, 1.0, 10) == 1
    with pytest.raises(UnknownStream):
        _sql.load_meta(db, A)


@pytest.mark.parametrize(
    ("entry", "number"),
    [
        pytest.param(b"x", 2500, id="many runs"),
        pytest.param(bytes(2000), 2500, id="many bytes"),
        pytest.param(bytes(300_000), 12, id="large entries"),
    ],
)
def test_a_large_stream_expires_in_steps_and_cannot_be_read_after_the_first(
    db: LogConnection, monkeypatch: pytest.MonkeyPatch, entry: bytes, number: int
) -> None:
    if len(entry) == 1:
        monkeypatch.setattr("coreason_client.server.log._staging._RUN_ENTRIES", 1)
    end_stream(db, A, [entry] * number, 1.0)
    end_stream(db, B, [b"x"], 2.0)
    move(db)
    left = [count(db, "runs")]
    while _sql.drop_entries(db, 2.0, 50):
        left.append(count(db, "runs"))
        assert _sql.load_meta(db, A).body_gone
        with pytest.raises(PositionGone):
            _sql.read_page(db, A, 0, 1, 10)
        assert _sql.read_page(db, A, number, 1, 10).ended
        if left[-1] > 1:  # the entries of the first stream are not all gone
            assert _sql.drop_streams(db, 2.0, 50) == 0
    assert len(left) > 3
    assert left == sorted(set(left), reverse=True)
    assert left[-1] == 0
    assert _sql.load_meta(db, B).body_gone
    assert _sql.drop_streams(db, 2.0, 50) == 2


def test_an_expiry_costs_what_expires(db: LogConnection) -> None:
    steps = ((_sql.drop_entries, 1.0), (_sql.drop_streams, 0.0), (_sql.drop_turns, 0.0))
    idle = [instructions(db, step, until, 50) for step, until in steps]
    for number in range(2000):
        open_stream(db, UUID(int=number))
        body_gone, ended_at = (1, 1.0) if number < 1000 else (0, 2.0)
        db.execute(
            "UPDATE streams SET outcome = 'complete', body_gone = ?, ended_at = ?"
            " WHERE stream_id = ?",
            (body_gone, ended_at, UUID(int=number).bytes),
        )
        _sql.add_turn(db, Conversation("p", f"{number}"), UUID(int=number), b"x", 1, 1.0)
    # Of a thousand streams without entries, and as many with entries, none is read.
    for before, (step, until) in zip(idle, steps, strict=True):
        assert instructions(db, step, until, 50) <= before + 2
    assert instructions(db, _sql.drop_entries, 2.0, 50) > 20


# Staged entries.


def test_staged_entries_are_loaded_again_except_those_that_have_expired(
    db: LogConnection,
) -> None:
    for stream_id in (A, B, C):
        open_stream(db, stream_id)
        _sql.append(db, stream_id, 1, 1, [b"x"])
    _sql.write_staged(db)
    _sql.write_staged(db)  # nothing more to write
    assert count(db, "staged") == 1
    db.execute("UPDATE streams SET body_gone = 1 WHERE stream_id = ?", (A.bytes,))
    db.execute("DELETE FROM streams WHERE stream_id = ?", (B.bytes,))
    db.stale = True
    _sql.load_staged(db)
    assert [stream_id for stream_id, _, _ in db.staged] == [C]
    assert (db.stale, db.staged.dropped) == (False, True)
    assert _sql.append(db, C, 1, 2, [b"y"]) == (True, False)
