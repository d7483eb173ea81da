"""Fields beyond the standard: an event each where they are asked for, and ignored elsewhere."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.sse import SSEDecoder, SSEEventTooLarge

FIELDS = (b"error", b"warning")
Seen = tuple[str, str, str]


def decode(chunks: Iterable[bytes], fields: tuple[bytes, ...] = FIELDS) -> list[Seen]:
    decoder = SSEDecoder(event_fields=fields)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [(event.event, event.data, event.id) for event in events]


def cut(wire: bytes, at: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(min(place, len(wire)) for place in at), len(wire)]
    return [wire[start:end] for start, end in pairwise(edges)]


# The wire, what it is with the option, what it is without.
ROWS: list[tuple[bytes, list[Seen], list[Seen]]] = [
    (b'error: {"code": 500}\n\n', [("error", '{"code": 500}', "")], []),
    (b"error:no blank\n\n", [("error", "no blank", "")], []),
    (b"error:  two blanks\n\n", [("error", " two blanks", "")], []),
    (b"error\n\n", [("error", "", "")], []),
    (b"warning: w\r\n\r\n", [("warning", "w", "")], []),
    (b"\xef\xbb\xbferror: after a mark\n\n", [("error", "after a mark", "")], []),
    (b"errors: x\n\nErr or: x\n\nERROR: x\n\nother: x\n\n", [], []),
    (b": error: x\n\n", [], []),
    (b"error: one\nerror: two\n\n", [("error", "one\ntwo", "")], []),
    (
        b"data: a\n\nerror: b\n\ndata: c\n\n",
        [("message", "a", ""), ("error", "b", ""), ("message", "c", "")],
        [("message", "a", ""), ("message", "c", "")],
    ),
    (
        b"id: 1\ndata: a\n\nid: 2\nerror: b\n\n",
        [("message", "a", "1"), ("error", "b", "2")],
        [("message", "a", "1")],
    ),
    (b"event: e\ndata: error: d\n\n", [("e", "error: d", "")], [("e", "error: d", "")]),
    (b"event: error\ndata: d\n\n", [("error", "d", "")], [("error", "d", "")]),
    (b"error: without an end\n", [], []),
]


@pytest.mark.parametrize(("wire", "asked", "unasked"), ROWS)
def test_the_fields_count_only_where_they_are_asked_for(
    wire: bytes, asked: list[Seen], unasked: list[Seen]
) -> None:
    for size in (len(wire), 1, 7):
        chunks = [wire[start : start + size] for start in range(0, len(wire), size)]
        assert decode(chunks) == asked
        assert decode(chunks, ()) == unasked


def test_without_the_option_is_the_default() -> None:
    assert SSEDecoder().feed(b"error: x\n\ndata: y\n\n")[0].data == "y"


lines = st.sampled_from(
    [
        *(b"data: a", b"data: b", b"id: 1", b"id", b"event: e", b"retry: 5", b": c", b""),
        *(b"error: x", b"error", b"warning: y", b"unknown: z"),
    ]
)
wires = st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n", b"\r"])).map(b"".join)).map(
    b"".join
)


@given(wires, st.lists(st.integers(0, 100), max_size=6))
def test_any_chunks_give_the_same_events(wire: bytes, at: list[int]) -> None:
    wire += b"\n\n"
    chunks = cut(wire, at)
    assert decode(chunks) == decode([wire])
    assert decode(chunks, ()) == decode([wire], ())


@given(wires)
def test_the_option_changes_nothing_where_the_fields_do_not_stand(wire: bytes) -> None:
    without = wire.replace(b"error", b"another").replace(b"warning", b"one more")
    assert decode([without + b"\n\n"]) == decode([without + b"\n\n"], ())


def test_a_long_one_is_read_whole_in_small_chunks() -> None:
    value = b"x" * 200_000  # beyond what is kept as text
    wire = b"data: before\n\nerror: " + value + b"\nerror: more\n\n"
    chunks = [wire[start : start + 1000] for start in range(0, len(wire), 1000)]
    expected = [("message", "before", ""), ("error", value.decode() + "\nmore", "")]
    assert decode(chunks) == expected
    assert decode(chunks, ()) == expected[:1]


@pytest.mark.parametrize("size", [10**6, 1000, 7])
def test_the_limit_is_for_them_too(size: int) -> None:
    wire = b"error: " + b"x" * 5000 + b"\nerror: " + b"y" * 5001
    decoder = SSEDecoder(10_000, event_fields=FIELDS)
    with pytest.raises(SSEEventTooLarge):
        for start in range(0, len(wire), size):
            decoder.feed(wire[start : start + size])
        decoder.feed(b"\n\n")
    fits = SSEDecoder(10_000, event_fields=FIELDS)
    (event,) = fits.feed(b"error: " + b"x" * 10_000 + b"\n\n")
    assert len(event.data) == 10_000
