"""The memory log drops streams in a fixed order to stay within its bound."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from coreason_client.server.errors import Fenced, RequestConflict, UnknownStream
from coreason_client.server.log import Conversation, LeaseState, NewStream
from coreason_client.server.log import _memory_store as _memory_records
from coreason_client.server.log._memory_store import MemoryStore, Stream


@pytest.fixture(autouse=True, scope="module")
def payload_only() -> Iterator[None]:
    """Count payload alone, so that the sizes of a test are those that it writes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_ENTRY", "_STREAM", "_TURN", "_CONVERSATION"):
            patch.setattr(_memory_records, name, 0)
        yield


def opened(store: MemoryStore, number: int, question: bytes = b"") -> Stream:
    new = NewStream(UUID(int=number), "p", UUID(int=100 + number), "f", question)
    stream, created = store.open(new, 0.0, 10.0)
    assert created
    return stream


def with_body(store: MemoryStore, number: int, size: int, *, ends_at: float | None) -> Stream:
    stream = opened(store, number)
    assert store.append(stream, 1, 1, [bytes(size)])
    if ends_at is not None:
        store.end(stream, "complete", ends_at)
    return stream


def test_the_bodies_of_streams_that_ended_first_go_first() -> None:
    store = MemoryStore(100)
    running = with_body(store, 1, 40, ends_at=None)
    ended = [with_body(store, number, 30, ends_at=float(number)) for number in (2, 3)]
    assert store.size == 100
    last = with_body(store, 4, 30, ends_at=4.0)
    assert [stream.body_gone for stream in (running, *ended, last)] == [False, True, False, False]
    store.append(running, 1, 2, [bytes(1000)])
    # What runs, and the stream that ended last, are kept whatever they take.
    assert [stream.body_gone for stream in (running, *ended, last)] == [False, True, True, False]
    assert store.size == 40 + 1000 + 30


def test_then_the_oldest_turns_of_the_conversation_that_is_idle_the_longest() -> None:
    store, old, young = MemoryStore(100), Conversation("p", "old"), Conversation("p", "young")
    for number in range(3):
        store.add_turn(old, UUID(int=number), bytes(20), 1, 1.0)
    store.add_turn(young, UUID(int=9), bytes(40), 1, 2.0)
    assert store.size == 100
    store.add_turn(young, UUID(int=9), bytes(40), 1, 2.0)  # once for each stream
    assert store.size == 100
    store.add_turn(young, UUID(int=10), bytes(20), 1, 3.0)
    assert list(store.conversations[old].by_stream) == [UUID(int=1), UUID(int=2)]
    store.add_turn(young, UUID(int=11), bytes(90), 1, 4.0)
    assert old not in store.conversations
    assert list(store.conversations[young].by_stream) == [UUID(int=11)]
    store.add_turn(young, UUID(int=12), bytes(500), 1, 5.0)
    assert list(store.conversations[young].by_stream) == [UUID(int=12)]  # the newest is kept
    assert store.size == 500


def test_entries_expire_before_streams_and_only_after_the_end() -> None:
    store = MemoryStore(10_000)
    running, ended = with_body(store, 1, 5, ends_at=None), with_body(store, 2, 5, ends_at=7.0)
    assert (store.expire_entries(6.9), store.expire_streams(100.0)) == (0, 0)
    assert (store.expire_entries(7.0), store.expire_entries(7.0)) == (1, 0)
    assert (running.body_gone, ended.body_gone, store.size) == (False, True, 5)
    assert store.get(ended.new.stream_id) is ended
    assert (store.expire_streams(7.0), store.expire_entries(1e9)) == (1, 0)
    with pytest.raises(UnknownStream):
        store.get(ended.new.stream_id)
    assert opened(store, 2).outcome is None  # its request is free again


def test_a_request_has_one_stream_and_one_body() -> None:
    store = MemoryStore(1000)
    stream = opened(store, 1, b"question")
    same = NewStream(UUID(int=5), "p", UUID(int=101), "f")
    assert store.open(same, 3.0, 13.0) == (stream, False)
    other_body = NewStream(UUID(int=6), "p", UUID(int=101), "g")
    with pytest.raises(RequestConflict):
        store.open(other_body, 3.0, 13.0)
    assert store.size == len(b"question")
    assert store.append(stream, 1, 1, [b"x"])
    store.end(stream, "complete", 4.0)
    assert store.size == 1  # the end drops the question


@pytest.mark.parametrize(
    ("epoch", "cancel", "ended", "state"),
    [
        (1, False, False, LeaseState.HELD),
        (1, True, False, LeaseState.CANCEL_REQUESTED),
        (2, False, False, LeaseState.LOST),
        (1, True, True, LeaseState.LOST),
    ],
)
def test_renewals(epoch: int, cancel: bool, ended: bool, state: LeaseState) -> None:
    store = MemoryStore(1000)
    stream = opened(store, 1)
    stream.cancel_requested = cancel
    if ended:
        store.append(stream, 1, 1, [b"x"])
        store.end(stream, "complete", 1.0)
    assert store.renew(stream.new.stream_id, epoch, 99.0) is state
    assert stream.lease_until == (10.0 if state is LeaseState.LOST else 99.0)
    with pytest.raises(Fenced):
        store.append(stream, 2, 1, [b"y"])
