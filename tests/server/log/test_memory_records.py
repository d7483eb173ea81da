"""The records of the memory log."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.server.errors import PositionGone
from coreason_client.server.log import Conversation, NewStream, StreamMeta
from coreason_client.server.log import _memory_store as _memory_records
from coreason_client.server.log._memory_store import Stream, Turns
from coreason_client.server.log.base import MAX_TURN_BYTES, MAX_TURNS, PAGE_BYTES

NEW = NewStream(UUID(int=1), "p", UUID(int=2), "f", b"question")


@pytest.fixture(autouse=True, scope="module")
def payload_only() -> Iterator[None]:
    """Count payload alone, so that the sizes of a test are those that it writes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_ENTRY", "_STREAM", "_TURN", "_CONVERSATION"):
            patch.setattr(_memory_records, name, 0)
        yield


def stream_of(*entries: bytes) -> Stream:
    stream = Stream(NEW, 5.0, 15.0)
    stream.entries = list(entries)
    stream.last_seq = len(entries)
    stream.size = sum(map(len, entries))
    return stream


def test_a_new_stream_is_empty_and_open() -> None:
    assert Stream(NEW, 5.0, 15.0).meta() == StreamMeta(
        stream_id=NEW.stream_id,
        principal="p",
        request_id=NEW.request_id,
        fingerprint="f",
        epoch=1,
        last_seq=0,
        opened_at=5.0,
        outcome=None,
        ended_at=None,
        cancel_requested=False,
        body_gone=False,
    )


def test_the_description_of_a_stream_is_a_copy() -> None:
    stream = stream_of(b"1")
    before = stream.meta()
    stream.outcome, stream.ended_at, stream.cancel_requested = "complete", 9.0, True
    assert (before.outcome, before.cancel_requested) == (None, False)
    after = stream.meta()
    assert (after.outcome, after.ended_at, after.cancel_requested) == ("complete", 9.0, True)


@pytest.mark.parametrize(
    ("after_seq", "limit", "entries", "ended"),
    [
        (0, 2, [b"1", b"2"], False),
        (1, 2, [b"2", b"3"], True),
        (2, 9, [b"3"], True),
        (3, 9, [], True),
    ],
)
def test_a_page_has_the_entries_after_a_position(
    after_seq: int, limit: int, entries: list[bytes], ended: bool
) -> None:
    stream = stream_of(b"1", b"2", b"3")
    page = stream.page(after_seq, 1, limit)
    assert (list(page.entries), page.ended) == (entries, False)
    stream.outcome = "complete"
    assert stream.page(after_seq, 1, limit).ended is ended


def test_a_page_has_a_limited_size() -> None:
    stream = stream_of(*[bytes(PAGE_BYTES)] * 3)
    stream.outcome = "complete"
    page = stream.page(0, 1, 10)
    assert (len(page.entries), page.ended) == (2, False)


def test_dropped_entries_free_their_bytes_once_and_cannot_be_read() -> None:
    stream = stream_of(b"12", b"345")
    assert (stream.drop_body(), stream.drop_body()) == (5, 0)
    assert (stream.size, stream.meta().body_gone, stream.meta().last_seq) == (0, True, 2)
    with pytest.raises(PositionGone):
        stream.page(1, 1, 10)
    assert list(stream.page(2, 1, 10).entries) == []  # nothing was missed at the last position


SIZES = st.sampled_from([0, 1, 1000, MAX_TURN_BYTES // 3, MAX_TURN_BYTES, MAX_TURN_BYTES + 1])


@settings(max_examples=50)
@given(st.lists(SIZES, max_size=12))
def test_a_conversation_counts_its_bytes_and_stays_within_its_limit(sizes: list[int]) -> None:
    turns = Turns(Conversation("p", "s"))
    total = 0
    for number, size in enumerate(sizes):
        total += turns.add(UUID(int=number), bytes(size), 1)
        kept = list(turns.by_stream.values())
        assert turns.size == total == sum(map(len, kept))
        assert len(kept[-1]) == size  # the latest turn is kept whatever its size
        assert total <= MAX_TURN_BYTES or len(kept) == 1
    assert list(turns.by_stream) == [
        UUID(int=number) for number in range(len(sizes) - len(turns.by_stream), len(sizes))
    ]
    while turns.by_stream:
        before = turns.size
        assert turns.drop_oldest() == before - turns.size
    assert turns.size == 0


def test_a_conversation_has_a_limited_number_of_turns() -> None:
    turns = Turns(Conversation("p", "s"))
    for number in range(MAX_TURNS + 1):
        turns.add(UUID(int=number), b"x", 1)
    assert (len(turns.by_stream), turns.size) == (MAX_TURNS, MAX_TURNS)
    assert UUID(int=0) not in turns.by_stream
    assert (turns.clear(), turns.clear(), turns.by_stream) == (MAX_TURNS, 0, {})
