"""The latest entries of streams: a page is right, or it is left to the store."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.log._recent_entries import RecentEntries
from coreason_client.server.log._rules import take_page
from coreason_client.server.log.base import PAGE_BYTES

IDS = [UUID(int=number) for number in range(3)]
SIZES = st.sampled_from([0, 1, 100, PAGE_BYTES // 2, PAGE_BYTES, PAGE_BYTES + 1])


@st.composite
def appends(draw: st.DrawFn) -> list[tuple[int, list[int]]]:
    return draw(
        st.lists(st.tuples(st.integers(0, 2), st.lists(SIZES, min_size=1, max_size=6)), max_size=12)
    )


@given(appends(), st.sampled_from([0, PAGE_BYTES, 3 * PAGE_BYTES, 10**9]), st.integers(1, 9))
def test_a_page_is_what_the_store_has_or_none(
    batches: list[tuple[int, list[int]]], max_bytes: int, limit: int
) -> None:
    recent = RecentEntries(max_bytes)
    stored: dict[UUID, list[bytes]] = {id_: [] for id_ in IDS}
    for number, sizes in batches:
        id_ = IDS[number]
        entries = [bytes([len(stored[id_]) % 251]) * size for size in sizes]
        recent.add(id_, 1, len(stored[id_]) + 1, entries, ended=False)
        stored[id_] += entries
        for known, all_entries in stored.items():
            for after_seq in range(len(all_entries) + 1):
                page = recent.page(known, after_seq, 1, limit)
                if page is not None:
                    assert page.entries == take_page(all_entries[after_seq : after_seq + limit])
                    assert not page.ended
        assert recent._size <= max_bytes
        held = (kept.entries for kept in recent._by_stream.values())
        assert recent._size == sum(sum(map(len, entries)) for entries in held)


@given(st.lists(SIZES, min_size=1, max_size=12), st.integers(1, 12))
def test_the_last_page_and_no_other_says_that_the_stream_has_ended(
    sizes: list[int], limit: int
) -> None:
    recent, entries = RecentEntries(10**9), [bytes(size) for size in sizes]
    recent.add(IDS[0], 1, 1, entries, ended=True)
    for after_seq in range(len(entries) + 1):
        page = recent.page(IDS[0], after_seq, 1, limit)
        if page is not None:
            assert page.ended is (after_seq + len(page.entries) == len(entries))
    last = recent.page(IDS[0], len(entries) - 1, 1, limit)
    assert last is not None  # the newest entry is kept whatever its size
    assert (list(last.entries), last.ended) == (entries[-1:], True)


def test_after_a_gap_the_entries_before_it_are_left_to_the_store() -> None:
    recent = RecentEntries(1000)
    recent.add(IDS[0], 1, 1, [b"1", b"2"], ended=False)
    recent.add(IDS[0], 1, 4, [b"4"], ended=False)
    assert recent.page(IDS[0], 1, 1, 9) is None
    assert recent.page(IDS[0], 2, 1, 9) is None
    assert recent.page(IDS[0], 3, 1, 9) is None  # only the store knows the epoch of entry 3
    recent.add(IDS[0], 1, 5, [b"5"], ended=False)
    page = recent.page(IDS[0], 4, 1, 9)
    assert page is not None
    assert page.entries == [b"5"]
    recent.drop(IDS[0])
    recent.drop(IDS[0])
    assert recent.page(IDS[0], 3, 1, 9) is None


def test_a_position_of_another_epoch_or_beyond_the_cache_is_left_to_the_store() -> None:
    recent = RecentEntries(1000)
    recent.add(IDS[0], 1, 1, [b"1", b"2"], ended=False)
    for seq, epoch in ((3, 1), (9, 1), (1, 7), (2, 7)):
        assert recent.page(IDS[0], seq, epoch, 9) is None
    recent.add(IDS[0], 7, 3, [b"3", b"4"], ended=False)
    for seq, epoch in ((0, 1), (0, 7), (1, 1), (2, 1), (2, 7), (3, 1), (4, 1), (5, 7)):
        assert recent.page(IDS[0], seq, epoch, 9) is None
    page = recent.page(IDS[0], 3, 7, 9)
    assert page is not None
    assert (page.entries, page.epoch) == ([b"4"], 7)


def test_a_cleared_cache_leaves_everything_to_the_store() -> None:
    recent = RecentEntries(1000)
    recent.add(IDS[0], 1, 1, [b"1"], ended=False)
    recent.clear()
    assert recent.page(IDS[0], 0, 1, 9) is None
    assert recent._size == 0


def test_a_cache_of_no_bytes_holds_nothing() -> None:
    recent = RecentEntries(0)
    for entry in (b"", b"x"):
        recent.add(IDS[0], 1, 1, [entry], ended=False)
        assert recent.page(IDS[0], 0, 1, 10) is None


def test_a_page_is_no_longer_than_one_of_the_store() -> None:
    recent = RecentEntries(10 * PAGE_BYTES)
    recent.add(IDS[0], 1, 1, [bytes(PAGE_BYTES // 2)] * 4, ended=True)
    page = recent.page(IDS[0], 0, 1, 10)
    assert page is not None
    assert (len(page.entries), page.ended) == (3, False)
    page = recent.page(IDS[0], 3, 1, 10)
    assert page is not None
    assert (len(page.entries), page.ended) == (1, True)


def test_entries_that_are_not_held_are_left_to_the_store() -> None:
    recent = RecentEntries(10_000)
    assert recent.page(IDS[0], 0, 1, 10) is None
    recent.add(IDS[0], 1, 5, [b"5", b"6"], ended=False)
    assert recent.page(IDS[0], 3, 1, 10) is None
    assert recent.page(IDS[0], 4, 1, 10) is None
    page = recent.page(IDS[0], 5, 1, 10)
    assert page is not None
    assert (list(page.entries), page.ended) == ([b"6"], False)
    recent.add(IDS[0], 1, 7, [b"7"], ended=True)
    page = recent.page(IDS[0], 5, 1, 1)
    assert page is not None
    assert (list(page.entries), page.ended) == ([b"6"], False)
    page = recent.page(IDS[0], 5, 1, 10)
    assert page is not None
    assert (list(page.entries), page.ended) == ([b"6", b"7"], True)
    page = recent.page(IDS[0], 7, 1, 10)
    assert page is not None
    assert (list(page.entries), page.ended) == ([], True)


def test_recent_entries_stay_within_their_bounds() -> None:
    recent = RecentEntries(4 * PAGE_BYTES)
    entry = b"x" * (PAGE_BYTES // 8)
    for seq in range(1, 200):
        recent.add(IDS[0], 1, seq, [entry], ended=False)
        page = recent.page(IDS[0], seq - 1, 1, 10)
        assert page is not None
        assert list(page.entries) == [entry]
        assert recent._size <= 2 * PAGE_BYTES
    for number in range(2, 50):
        recent.add(UUID(int=number), 1, 1, [entry] * 8, ended=True)
        assert recent._size <= 4 * PAGE_BYTES
    assert recent.page(IDS[0], 198, 1, 10) is None
    for number in range(1, 50):
        recent.drop(UUID(int=number))
    assert recent._size == 0
