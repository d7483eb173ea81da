"""The hash of a stream in the store, and back."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.log import AgentVersion, NewStream, StreamMeta
from coreason_client.server.log._rules import new_meta, text
from coreason_client.server.log.base import EpochStart
from coreason_client.server.log.valkey._errors import ForeignValue
from coreason_client.server.log.valkey._keys import FIELDS, parse_meta

ID, REQUEST = UUID(int=7), UUID(int=8)
GOOD: dict[str, bytes | None] = {
    "principal": b"ann",
    "request": REQUEST.hex.encode(),
    "print": b"f",
    "epoch": b"2",
    "last": b"5",
    "opened": b"10.5",
    "outcome": None,
    "ended": None,
    "cancel": None,
    "gone": None,
    "agent": None,
    "version": None,
    "base": b"3",
    "starts": b"4",
    "epochs": b"2",
}
META = StreamMeta(
    stream_id=ID,
    principal="ann",
    request_id=REQUEST,
    fingerprint="f",
    epoch=2,
    last_seq=5,
    opened_at=10.5,
    outcome=None,
    ended_at=None,
    cancel_requested=False,
    body_gone=False,
    epochs=(EpochStart(4, 2),),
)


def parse(**changes: bytes | None) -> StreamMeta | None:
    values = GOOD | changes
    return parse_meta(ID, [values[field] for field in FIELDS])


def test_a_running_stream() -> None:
    assert parse() == META


def test_an_ended_stream() -> None:
    meta = parse(outcome=b"complete", ended=b"11.25", cancel=b"1", gone=b"1")
    assert meta is not None
    assert (meta.outcome, meta.ended_at) == ("complete", 11.25)
    assert meta.cancel_requested
    assert meta.body_gone


def test_a_durable_stream() -> None:
    meta = parse(agent=b"writer", version=b"1.2", epoch=b"99", starts=b"4 6", epochs=b"7 99")
    assert meta is not None
    assert meta.agent == AgentVersion("writer", "1.2")
    assert meta.epochs == (EpochStart(4, 7), EpochStart(6, 99))
    assert (meta.epoch, meta.epoch_start) == (99, 6)


def test_no_stream() -> None:
    assert parse_meta(ID, [None] * len(FIELDS)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"principal": None},
        {"request": None},
        {"request": b"nonsense"},
        {"request": b"\xff"},
        {"epoch": b"one"},
        {"last": None},
        {"opened": b"today"},
        {"ended": b"soon"},
        {"principal": b"\xff"},
        {"starts": b"first"},
        {"epochs": b"2;3"},
    ],
)
def test_a_hash_that_the_log_did_not_write(changes: dict[str, bytes | None]) -> None:
    with pytest.raises(ForeignValue):
        parse(**changes)


@given(st.text() | st.just("\ud800"), st.floats(allow_nan=False, allow_infinity=False))
def test_every_text_and_every_time_come_back_as_they_were(value: str, opened: float) -> None:
    meta = parse(principal=text(value), print=text(value), opened=repr(opened).encode())
    assert meta is not None
    assert (meta.principal, meta.fingerprint, meta.opened_at) == (value, value, opened)


def test_a_new_stream_is_described_as_the_store_will_describe_it() -> None:
    made = new_meta(NewStream(ID, "ann", REQUEST, "f", b"question"), 10.5)
    assert made == parse(epoch=b"1", last=b"0", base=None, starts=None, epochs=None)
