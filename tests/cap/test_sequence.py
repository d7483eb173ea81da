"""The numbers of a stream that have arrived."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.cap._stream_state import SequenceNumbers


def test_without_gaps_all_numbers_from_the_first_have_arrived() -> None:
    numbers = SequenceNumbers(3)
    assert [numbers.arrived(seq) for seq in range(6)] == [False] * 3 + [True] * 3


@pytest.mark.parametrize(
    ("seq", "expected"),
    [(0, True), (4, True), (5, False), (7, False), (8, True), (9, False), (10, True), (20, True)],
)
def test_skipped_numbers_have_not_arrived(seq: int, expected: bool) -> None:
    numbers = SequenceNumbers(0)
    numbers.skip(4, 8)
    numbers.skip(8, 10)
    assert numbers.arrived(seq) is expected


@settings(max_examples=80)
@given(st.sets(st.integers(0, 30), min_size=1))
def test_exactly_the_numbers_that_came_have_arrived(came: set[int]) -> None:
    first, *rest = sorted(came)
    numbers = SequenceNumbers(first)
    last = first
    for seq in rest:
        if seq > last + 1:
            numbers.skip(last, seq)
        last = seq
    assert {seq for seq in range(last + 1) if numbers.arrived(seq)} == came
