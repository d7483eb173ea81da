"""The rules that more than one log applies, without a log."""

from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.server.errors import PositionGone
from coreason_client.server.log._rules import (
    begin_epoch,
    check_last_entries,
    check_position,
    count_latest_turns,
    cut_page,
    is_repeated,
    make_page,
    may_have_more,
    new_epoch,
    take_page,
)
from coreason_client.server.log.base import PAGE_BYTES, EpochStart, Page, epoch_at

from .append_rule import APPENDS, EPOCH, LAST_SEQ, NEW, REPEATED, Append

ID = UUID(int=7)


def judge(append: Append) -> str:
    """Apply the rule to an append of the table."""
    repeated = is_repeated(
        ID,
        append.epoch,
        append.first_seq,
        append.count,
        current_epoch=EPOCH,
        last_seq=LAST_SEQ,
        ended=append.ended,
        claimed_seq=append.claimed_seq,
    )
    return REPEATED if repeated else NEW


@pytest.mark.parametrize(("append", "expected"), APPENDS)
def test_an_append_is_new_or_repeated_or_refused(
    append: Append, expected: str | type[Exception]
) -> None:
    if isinstance(expected, str):
        assert judge(append) == expected
    else:
        with pytest.raises(expected):
            judge(append)


@given(st.lists(st.integers(0, 2 * PAGE_BYTES), max_size=8))
def test_a_page_ends_with_the_entry_that_passes_the_bound(sizes: list[int]) -> None:
    entries = [bytes(size) for size in sizes]
    page = cut_page(entries)
    assert page == take_page(iter(entries))
    assert page == entries[: len(page)]
    assert sum(map(len, page[:-1])) <= PAGE_BYTES
    if len(page) < len(entries):
        assert sum(map(len, page)) > PAGE_BYTES


@given(st.lists(st.sampled_from([0, 1, PAGE_BYTES - 1, PAGE_BYTES]), max_size=8), st.integers(1, 8))
def test_a_page_that_was_cut_may_have_more_behind_it(sizes: list[int], limit: int) -> None:
    entries = [bytes(size) for size in sizes]
    page = cut_page(entries[:limit])
    more = may_have_more(b"".join(page), len(page), limit)
    assert more or page == entries


@pytest.mark.parametrize(
    ("after_seq", "count", "ended", "expected"),
    [
        (0, 0, False, False),  # nothing yet
        (0, 3, False, False),  # all entries of a running stream
        (0, 2, True, False),  # the last entry of an ended stream follows
        (0, 3, True, True),
        (2, 1, True, True),
        (3, 0, True, True),  # at the end
        (9, 0, False, False),
    ],
)
def test_a_page_says_that_the_stream_has_ended_only_with_its_last_entry(
    after_seq: int, count: int, ended: bool, expected: bool
) -> None:
    entries = [b"x"] * count
    page = make_page(ID, after_seq, 1, entries, last_seq=3, epochs=(), ended=ended, body_gone=False)
    assert page == Page(entries, expected, 1)


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("after_seq", range(4))
def test_a_position_is_gone_if_entries_behind_it_were_dropped(after_seq: int, ended: bool) -> None:
    def page() -> Page:
        return make_page(ID, after_seq, 1, [], last_seq=3, epochs=(), ended=ended, body_gone=True)

    if after_seq >= 3:
        assert page() == Page([], ended, 1)
        return
    with pytest.raises(PositionGone) as caught:
        page()
    gone = caught.value
    assert (gone.stream_id, gone.after_seq, gone.replaced) == (ID, after_seq, False)


# Epochs and positions: epoch 7 began with entry 3 and epoch 9, without entries before it, too;
# epoch 12 began with entry 5, which is the last one.
EPOCHS = (EpochStart(3, 7), EpochStart(3, 9), EpochStart(5, 12))


@pytest.mark.parametrize(
    ("seq", "epoch"), [(0, 1), (1, 1), (2, 1), (3, 9), (4, 9), (5, 12), (6, 12), (10**9, 12)]
)
@pytest.mark.parametrize("ended", [True, False])
def test_a_position_has_one_epoch(seq: int, epoch: int, ended: bool) -> None:
    def check(asked: int) -> None:
        check_position(ID, seq, asked, last_seq=5, epochs=EPOCHS, ended=ended)

    assert epoch_at(EPOCHS, seq) == epoch
    for asked in (1, 2, 7, 8, 9, 12, 13):
        if seq == 0 or (asked == epoch and not (ended and seq > 5)):
            check(asked)
            continue
        with pytest.raises(PositionGone) as caught:
            check(asked)
        gone = caught.value
        assert (gone.stream_id, gone.after_seq, gone.replaced) == (ID, seq, True)


@pytest.mark.parametrize(
    ("after", "count", "epoch"),
    [(0, 2, 1), (0, 3, 9), (2, 1, 9), (2, 3, 12), (4, 1, 12), (2, 0, 1), (4, 0, 9), (9, 0, 12)],
)
def test_a_page_has_the_epoch_of_its_last_entry_or_of_its_position(
    after: int, count: int, epoch: int
) -> None:
    of = epoch_at(EPOCHS, after)
    entries = [b"x"] * count
    page = make_page(
        ID, after, of, entries, last_seq=5, epochs=EPOCHS, ended=False, body_gone=False
    )
    assert page == Page(entries, False, epoch)


def test_the_next_epoch_is_later_and_begins_after_the_last_entry() -> None:
    assert begin_epoch((), 0, 99) == (EpochStart(1, 99),)
    assert begin_epoch(EPOCHS, 6, 99) == (*EPOCHS, EpochStart(7, 99))
    for behind in (0, 1, 11, 12):  # the clock of the claimant is slow
        assert begin_epoch(EPOCHS, 6, behind)[-1] == EpochStart(7, 13)
    assert begin_epoch((), 3, 0) == (EpochStart(4, 2),)


@given(st.floats(1_735_689_600.0, 2_800_000_000.0), st.floats(0.001, 10**6))
def test_the_number_of_an_epoch_grows_with_time_and_fits(now: float, later: float) -> None:
    first, second = new_epoch(now), new_epoch(now + later + 0.001)
    assert 0 <= first < second < 2**53
    assert len(str(second)) <= 18


def test_the_numbers_of_one_millisecond_differ() -> None:
    numbers = [new_epoch(1_800_000_000.0) for _ in range(100)]
    assert len(set(numbers)) > 50
    assert len({number >> 13 for number in numbers}) == 1
    assert new_epoch(0.0) < 2**13  # a clock before 2025: `begin_epoch` still counts up
    assert new_epoch() > new_epoch(1_735_689_601.0)


def test_a_stream_ends_with_an_entry() -> None:
    check_last_entries([b""])
    with pytest.raises(ValueError, match="got no entries"):
        check_last_entries([])


@example([1], 1, 0)
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 12), st.integers(0, 30))
def test_the_latest_turns_within_the_bounds(
    sizes: list[int], max_turns: int, max_bytes: int
) -> None:
    count = count_latest_turns(sizes, max_turns, max_bytes)
    assert count <= min(max_turns, len(sizes))
    assert count >= min(1, max_turns, len(sizes))  # the newest one, whatever its size
    assert count <= 1 or sum(sizes[:count]) <= max_bytes
    if count < min(max_turns, len(sizes)):
        assert sum(sizes[: count + 1]) > max_bytes
