"""The position in a stream: numbers, other streams, cursor and gaps."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cap._numbering import Numbering
from coreason_client.cap.errors import CAPStreamReset
from coreason_client.cap.position import Position

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def read(numbering: Numbering, stream_id: UUID, seq: int, event_id: bytes = b"") -> None:
    """Move to a packet as the resume machine does."""
    if stream_id.int != numbering.stream:
        numbering.switch_stream(stream_id, seq)
    if seq > numbering.seq + 1:
        numbering.skip_to(seq)
    numbering.seq = max(numbering.seq, seq)
    numbering.last_event_id = event_id


def test_before_the_first_packet() -> None:
    numbering = Numbering()
    assert (numbering.position, numbering.cursor, numbering.is_at_start) == (None, None, False)


def test_a_stream_may_start_anywhere() -> None:
    numbering = Numbering()
    numbering.switch_stream(A, 7)
    assert (numbering.stream_id, numbering.stream, numbering.seq) == (A, A.int, 6)


def test_a_saved_position_is_where_reading_starts() -> None:
    numbering = Numbering(Position(stream_id=A, seq=4, cursor="a:4"))
    assert numbering.position == Position(stream_id=A, seq=4, cursor="a:4")
    assert (numbering.cursor, numbering.is_at_start) == ("a:4", True)
    read(numbering, A, 5)
    assert not numbering.is_at_start


@pytest.mark.parametrize(
    ("event_id", "cursor"), [(b"x", "x"), (b"", str(A)), (b" x", str(A)), (b"\x01", str(A))]
)
def test_without_an_id_that_a_header_carries_the_cursor_is_the_stream(
    event_id: bytes, cursor: str
) -> None:
    numbering = Numbering()
    read(numbering, A, 1, event_id)
    assert numbering.cursor == cursor


def test_a_stream_that_comes_back_continues_after_its_last_number() -> None:
    numbering = Numbering()
    read(numbering, A, 1)
    read(numbering, A, 2)
    read(numbering, B, 5)
    numbering.switch_stream(A, 9)
    assert numbering.seq == 2
    numbering.switch_stream(B, 9)
    assert numbering.seq == 5


def test_a_connection_after_the_first_may_only_bring_known_streams() -> None:
    numbering = Numbering()
    numbering.connect()
    read(numbering, A, 1)
    read(numbering, B, 1)  # the first connection may bring any
    numbering.connect()
    numbering.switch_stream(A, 2)
    with pytest.raises(CAPStreamReset) as raised:
        numbering.switch_stream(C, 1)
    assert raised.value.position == Position(stream_id=A, seq=1)
    assert numbering.stream_id == A


def test_a_gap_is_tried_once_at_each_place() -> None:
    numbering = Numbering()
    read(numbering, A, 1)
    assert not numbering.gap_was_retried
    numbering.record_gap_retry()
    assert numbering.gap_was_retried
    read(numbering, A, 2)
    assert not numbering.gap_was_retried
    numbering.record_gap_retry()
    read(numbering, B, 2)
    assert not numbering.gap_was_retried


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 12)), min_size=1, max_size=40))
def test_exactly_the_numbers_that_arrived_are_known(packets: list[tuple[UUID, int]]) -> None:
    """The model: per stream the set of all numbers that were handed out."""
    numbering = Numbering()
    arrived: dict[UUID, set[int]] = {A: set(), B: set()}
    for stream_id, seq in packets:
        if stream_id.int != numbering.stream:
            numbering.switch_stream(stream_id, seq)
        if seq <= numbering.seq:
            assert numbering.has_arrived(seq) is (seq in arrived[stream_id])
            continue
        read(numbering, stream_id, seq)
        arrived[stream_id].add(seq)
        assert numbering.position == Position(stream_id=stream_id, seq=max(arrived[stream_id]))
