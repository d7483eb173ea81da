"""The position in a stream: numbers, other streams, cursor and gaps."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cap._stream_state import Numbering
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


# Epochs


def at(seq: int, epoch: str = "") -> Numbering:
    return Numbering(Position(stream_id=A, seq=seq, cursor=f"{A}:{seq}{epoch}"), rewinds=True)


@pytest.mark.proves("R11c", "R11d")
@pytest.mark.parametrize(
    ("last", "new", "expected"),
    [
        ("", "", True),
        ("", ":1", True),
        (":9:2", ":9:2", True),
        (":9:2", ":9:4", True),  # the same epoch, whatever else it says
        ("", ":9:5", True),
        (":9:2", ":12:5", True),
        ("", ":9", True),
        (":2", ":9:5", True),
        (":2", ":2:3", True),
        (":x", ":9:2", True),
        ("", ":9:4", False),
        ("", ":9:1", False),
        (":1", ":9:4", False),
        (":2", ":9:4", False),
        (":9:2", ":12:4", False),
        (":9:2", "", False),
        (":9:2", ":1", False),
    ],
)
def test_only_the_first_packet_of_an_epoch_follows_another_one(
    last: str, new: str, expected: bool
) -> None:
    numbering = at(4, last)
    assert numbering.follows(5, f"{A}:5{new}".encode()) is expected


def test_a_block_without_a_packet_says_nothing_of_epochs() -> None:
    numbering = at(4)
    numbering.set_id(b"further")
    assert numbering.follows(5, f"{A}:5:9:2".encode())


@given(st.binary(max_size=60) | st.text("0123456789:-ab", max_size=60).map(str.encode))
def test_any_id_of_another_server_says_nothing_of_epochs(event_id: bytes) -> None:
    assert at(4).follows(5, event_id)
    assert at(4).follows(5, f"{A}:5".encode() + b":9:4" + event_id) is (event_id != b"")


# Rereads


@pytest.mark.proves("R11f")
def test_the_position_stays_until_a_reread_brings_a_packet() -> None:
    numbering = at(4, ":9:2")
    before = numbering.position
    assert not numbering.starting_over
    assert numbering.start_over()
    assert (numbering.position, numbering.cursor) == (before, str(A))
    assert (numbering.starting_over, numbering.is_at_start) == (True, False)
    numbering.connect()
    with pytest.raises(CAPStreamReset) as raised:
        numbering.switch_stream(B, 1)
    assert raised.value.position == before
    numbering.begin_again(1)
    assert numbering.position == Position(stream_id=A, seq=0)
    assert not numbering.starting_over
    for seq in range(1, 5):
        read(numbering, A, seq)
    assert not numbering.is_at_start  # the end of a saved position is not that of a reread


@pytest.mark.proves("R11f")
def test_a_stream_is_read_again_three_times_without_a_new_number() -> None:
    numbering = at(4)
    for last in (4, 2, 1):
        assert numbering.start_over()
        assert not numbering.start_over()  # before its first packet
        numbering.begin_again(1)
        read(numbering, A, last)
    assert not numbering.start_over()
    read(numbering, A, 5)
    assert numbering.start_over()


def test_nothing_is_read_again_at_the_start_or_without_rewinds() -> None:
    assert not at(0).start_over()
    assert not Numbering(rewinds=True).start_over()
    assert not Numbering(Position(stream_id=A, seq=4)).start_over()


# Gaps


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
