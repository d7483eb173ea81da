"""A block that is collected line by line: its fields, and its limit at every step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.sse import SSEEventTooLarge
from coreason_client.sse._block import LONGEST_FIELD_PREFIX, Block, parse_retry


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"0", 0),
        (b"3000", 3000),
        (b"007", 7),
        (b"9" * 18, 10**18 - 1),
        (b"9" * 19, None),
        (b"", None),
        (b"-1", None),
        (b"+1", None),
        (b"1_000", None),
        (b" 1", None),
        (b"1.5", None),
        ("٣".encode(), None),  # an Arabic 3
    ],
)
def test_a_reconnection_time_is_ascii_digits(value: bytes, expected: int | None) -> None:
    assert parse_retry(value) == expected


def block(lines: bytes, limit: int = 100, event_fields: tuple[bytes, ...] = ()) -> Block:
    made = Block(limit, event_fields)
    made.add(lines)
    return made


@pytest.mark.parametrize(
    ("lines", "data"),
    [
        (b"data: a", b"a\n"),
        (b"data:a", b"a\n"),
        (b"data:  a", b" a\n"),  # only one space belongs to the syntax
        (b"data", b"\n"),
        (b"data:", b"\n"),
        (b"data: a\ndata: b", b"a\nb\n"),
        (b"data: a: b", b"a: b\n"),
        (b"DATA: a", b""),
        (b" data: a", b""),
        (b": data: a", b""),
        (b"other: a", b""),
        (b"error: a", b""),
    ],
)
def test_each_line_of_data_is_kept_with_its_end(lines: bytes, data: bytes) -> None:
    found = block(lines)
    assert bytes(found.data) == data
    assert (found.event, found.last_event_id, found.retry_ms) == (b"", None, None)


def test_the_last_type_id_and_time_count() -> None:
    found = block(b"event: a\nid: 1\nretry: 5\nevent: b\nid: 2\nretry: 7")
    assert (found.event, found.last_event_id, found.retry_ms) == (b"b", b"2", 7)


def test_values_that_the_standard_ignores_change_nothing() -> None:
    found = block(b"id: 1\nretry: 5\nid: a\0b\nretry: x")
    assert (found.last_event_id, found.retry_ms) == (b"1", 5)


def test_an_empty_id_and_an_empty_type_are_values() -> None:
    found = block(b"id: 1\nevent: a\nid\nevent:")
    assert (found.last_event_id, found.event) == (b"", b"")


def test_a_field_that_stands_for_an_event_is_type_and_data() -> None:
    found = block(b"error: a\ndata: b", event_fields=(b"error",))
    assert (found.event, bytes(found.data)) == (b"error", b"a\nb\n")


@pytest.mark.parametrize(
    ("lines", "limit"),
    [
        (b"data: aaaa", 4),
        (b"data: a\ndata: bc", 4),  # the line end between two lines counts
        (b"error: aaaa", 4),
        (b"x" * (4 + LONGEST_FIELD_PREFIX), 4),
        (b": comment", 2),
        (b"id: 12345", 2),
    ],
)
def test_exactly_the_limit_fits_and_one_byte_less_does_not(lines: bytes, limit: int) -> None:
    fields = (b"error",)
    block(lines, limit, fields)
    with pytest.raises(SSEEventTooLarge) as caught:
        block(lines, limit - 1, fields)
    assert caught.value.limit == limit - 1


@pytest.mark.parametrize(
    ("lines", "unfinished", "fits"),
    [
        (b"", b"data: aaaa", True),
        (b"", b"data: aaaaa", False),
        (b"", b"data:aaaa", True),
        (b"", b"data:aaaaa", False),
        (b"data: aa", b"data: a", True),
        (b"data: aa", b"data: ab", False),
        (b"data: aa", b"id: 1234", True),
        (b"data: aaaa", b"data", True),  # perhaps another field
        (b"data: aaaa", b"data:", False),
        (b"", b"x" * (4 + LONGEST_FIELD_PREFIX), True),
        (b"", b"x" * (5 + LONGEST_FIELD_PREFIX), False),
    ],
)
def test_an_unfinished_line_counts_as_far_as_it_goes(
    lines: bytes, unfinished: bytes, fits: bool
) -> None:
    found = Block(4)
    if lines:
        found.add(lines)
    if fits:
        found.check_unfinished(bytearray(unfinished))
    else:
        with pytest.raises(SSEEventTooLarge):
            found.check_unfinished(bytearray(unfinished))


lines_of_data = st.lists(
    st.builds(
        lambda name, space, value: name + space + value,
        st.sampled_from([b"data:", b"id:", b"x:"]),
        st.sampled_from([b"", b" "]),
        st.text("ab ", max_size=6).map(str.encode),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=80)
@given(lines_of_data, st.integers(1, 12))
def test_what_fits_as_whole_lines_fits_at_every_byte(lines: list[bytes], limit: int) -> None:
    whole = Block(limit)
    try:
        for line in lines:
            whole.add(line)
    except SSEEventTooLarge:
        return
    growing = Block(limit)
    for line in lines:
        for size in range(len(line) + 1):
            growing.check_unfinished(line[:size])
        growing.add(line)
    assert growing.data == whole.data
