"""The rules that more than one log applies, without a log."""

from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.server.errors import PositionGone
from coreason_client.server.log._rules import (
    check_last_entries,
    count_latest_turns,
    cut_page,
    is_repeated,
    make_page,
    may_have_more,
    take_page,
)
from coreason_client.server.log.base import PAGE_BYTES, Page

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
        (9, 0, True, True),  # beyond the end
        (9, 0, False, False),
    ],
)
def test_a_page_says_that_the_stream_has_ended_only_with_its_last_entry(
    after_seq: int, count: int, ended: bool, expected: bool
) -> None:
    entries = [b"x"] * count
    page = make_page(ID, after_seq, entries, last_seq=3, ended=ended, body_gone=False)
    assert page == Page(entries, expected)


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("after_seq", range(6))
def test_a_position_is_gone_if_entries_behind_it_were_dropped(after_seq: int, ended: bool) -> None:
    if after_seq >= 3:
        page = make_page(ID, after_seq, [], last_seq=3, ended=ended, body_gone=True)
        assert page == Page([], ended)
        return
    with pytest.raises(PositionGone) as caught:
        make_page(ID, after_seq, [], last_seq=3, ended=ended, body_gone=True)
    assert (caught.value.stream_id, caught.value.after_seq) == (ID, after_seq)


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
