"""Claims and journals in the SQLite log, on a database in memory."""

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID

import pytest

from coreason_client.server.errors import Fenced, UnknownStream
from coreason_client.server.log import AgentVersion, Claim, Notes, _sql, _sql_claims
from coreason_client.server.log._sql import LogConnection
from coreason_client.server.log.base import PAGE_BYTES, UNCLAIMED_SECONDS, EpochStart

from .test_sql import A, B, C, connect, open_stream

AGENT = AgentVersion("writer", "1")


@pytest.fixture
def db() -> Iterator[LogConnection]:
    with closing(connect()) as connection:
        yield connection


def open_durable(db: LogConnection, stream_id: UUID, lease_until: float) -> None:
    open_stream(db, stream_id, lease_until=lease_until, question=b"q")
    db.execute(
        "UPDATE streams SET agent_id = ?, version = ? WHERE stream_id = ?",
        (AGENT.agent_id, AGENT.version, stream_id.bytes),
    )


def claim_of(db: LogConnection, stream_id: UUID, last_seq: int) -> Claim:
    """Return the claim that the description of a stream shows."""
    meta = _sql.load_meta(db, stream_id)
    assert meta.epochs[-1] == EpochStart(last_seq + 1, meta.epoch)
    assert meta.epoch > 1
    return Claim(stream_id, meta.epoch, last_seq, b"q")


def test_streams_whose_lease_has_run_out_are_claimed_up_to_the_limit(db: LogConnection) -> None:
    for stream_id, lease_until in ((A, 5.0), (B, 5.0), (C, 5.1)):
        open_stream(db, stream_id, lease_until=lease_until, question=b"q")
    _sql.append(db, A, 1, 1, [b"a", b"b"])
    first = _sql_claims.claim_lost(db, 5.0, 20.0, 1)
    assert len(first) == 1
    rest = _sql_claims.claim_lost(db, 5.0, 20.0, 10)
    claims = sorted([*first, *rest], key=lambda claim: claim.stream_id)
    assert claims == [claim_of(db, A, 2), claim_of(db, B, 0)]
    assert _sql_claims.claim_lost(db, 19.9, 30.0, 10) == [claim_of(db, C, 0)]
    with pytest.raises(Fenced):  # the earlier owner, whose state was cached
        _sql.append(db, A, 1, 3, [b"c"])


def test_a_durable_stream_is_lost_only_after_some_time(db: LogConnection) -> None:
    open_durable(db, A, 5.0)
    late = 5.0 + UNCLAIMED_SECONDS
    assert _sql_claims.claim_lost(db, late - 0.1, 900.0, 10) == []
    assert _sql_claims.claim_lost(db, late, 900.0, 10) == [claim_of(db, A, 0)]


def test_the_oldest_durable_streams_are_claimed_first(db: LogConnection) -> None:
    for stream_id, lease_until in ((A, 7.0), (B, 5.0), (C, 6.0)):
        open_durable(db, stream_id, lease_until)
    claims = _sql_claims.claim_durable(db, AGENT, 8.0, 10.0, 2)
    assert [claim.stream_id for claim in claims] == [B, C]


def test_a_claim_records_where_its_epoch_began(db: LogConnection) -> None:
    open_durable(db, A, 5.0)
    _sql.append(db, A, 1, 1, [b"a"], Notes(1, [b"n"]))
    [claim] = _sql_claims.claim_durable(db, AGENT, 5.0, 10.0, 1)
    _sql.append(db, A, claim.epoch, 2, [b"b"], Notes(2, [b"m"]))
    _sql_claims.release(db, A, claim.epoch, 6.0)
    meta = _sql.load_meta(db, A)
    assert meta.epochs == (EpochStart(2, claim.epoch), EpochStart(3, meta.epoch))
    assert meta.epoch > claim.epoch > 1
    assert meta.agent == AGENT
    assert _sql_claims.journal(db, A, 0) == [b"n", b"m"]


def test_a_page_of_the_journal_ends_with_the_note_that_exceeds_it(db: LogConnection) -> None:
    open_durable(db, A, 5.0)
    notes = [bytes(PAGE_BYTES), b"", b"x"]
    _sql.append(db, A, 1, 1, [], Notes(1, notes))
    assert [len(note) for note in _sql_claims.journal(db, A, 0)] == [PAGE_BYTES, 0, 1]
    assert _sql_claims.journal(db, A, 2) == [b"x"]
    with pytest.raises(UnknownStream):
        _sql_claims.journal(db, B, 0)


def test_only_the_owner_of_a_running_stream_releases_it(db: LogConnection) -> None:
    open_durable(db, A, 5.0)
    with pytest.raises(Fenced):
        _sql_claims.release(db, A, 2, 6.0)
    with pytest.raises(UnknownStream):
        _sql_claims.release(db, B, 1, 6.0)
