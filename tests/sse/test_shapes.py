"""Streams of events in the common shapes, against the reference: templates change no result."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coreason_client.sse import ServerSentEvent, SSEDecoder, SSEEventTooLarge, _decode
from coreason_client.sse._block import learn
from tests.sse.reference import BOM, Event, Reference, TooLarge

# A block before its empty line; %d, %e, %i and %r stand for values.
COMMON = [
    *("data: %d", "id: %i|data: %d", "event: %e|data: %d", "event: %e|id: %i|data: %d"),
    *("id: %i|event: %e|data: %d", "data:%d", ": comment|data: %d", "data: %d|id: %i"),
    *("event: %e|data: %d|id: %i", "retry: %r|id: %i|data: %d", "data: %d|data: %d"),
    *("id:%i|event:%e|data:%d", "id: %i|data:%d", "data:%d|data: %d", "data:%d|id:%i"),
]
OTHER = [
    *("", ":", ": ping", "id: %i", "event: %e", "retry: %r", "data", "data|id", "id|data: %d"),
    *("data: %d|event: %e", "data: %d|data: %d|data: %d", "id: %i|data: %d|data: %d"),
    *(
        "error: %d",
        "error:%d",
        "other: %d|data: %d",
        "data: %d|",
        "DATA: %d",
        "data: %d|id: %i|id: %i",
    ),
    *("retry: %r|data: %d|retry: %r", "data: %d|: comment", "event: %e|event: %e|data: %d"),
]
# Values that look like the text around values, or that the rules treat in a special way.
VALUES = [
    *("x", "", " ", " x", "  x", "!", "\t", "\0", "a\0b", ":", "data: y", "id: 7", "event: a"),
    *("data", "message", "{}", '{"a": 1}', "ü…", "\u2028", "1", "x" * 40, ": comment", "\x1f"),
]
TYPES = ["message", "message", "message", "ping", "", " a"]
RETRIES = ["3000", "3000", "7", "x", "", "9" * 19]
ENDS = ["\n", "\r\n", "\r"]

values = st.sampled_from(VALUES) | st.text(
    st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=5
)


@st.composite
def block(draw: st.DrawFn, shape: str, end: str) -> bytes:
    text = ""
    for line in shape.split("|") if shape else []:
        value = {
            "%d": values,
            "%i": values,
            "%e": st.sampled_from(TYPES),
            "%r": st.sampled_from(RETRIES),
        }.get(line[-2:], st.just(line[-2:]))
        text += line[:-2] + draw(value) + end
    return (text + end).encode()


@st.composite
def runs(draw: st.DrawFn) -> list[bytes]:
    """Runs of blocks of one shape, so that a template is learned, then applies, then does not."""
    end = draw(st.sampled_from(ENDS))
    mixed_ends = draw(st.integers(0, 4)) == 0
    blocks: list[bytes] = []
    for _ in range(draw(st.integers(1, 5))):
        shape = draw(st.sampled_from(COMMON + COMMON + OTHER))
        for _ in range(draw(st.integers(1, 6))):
            if mixed_ends:
                end = draw(st.sampled_from(ENDS))
            blocks.append(draw(block(shape, end)))
    if draw(st.integers(0, 9)) == 0:
        blocks[0] = BOM + blocks[0]
    return blocks


def one_by_one(wire: bytes) -> list[bytes]:
    return [wire[i : i + 1] for i in range(len(wire))]


def cut(wire: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(wire) + 1) for place in places), len(wire)]
    return [wire[start:end] for start, end in pairwise(edges)]


def fields(events: Sequence[ServerSentEvent]) -> list[Event]:
    return [(event.event_bytes, event.data_bytes, event.id_bytes) for event in events]


def assert_same(chunks: Sequence[bytes], event_fields: tuple[bytes, ...] = ()) -> SSEDecoder:
    """Compare everything that can be seen, after every chunk."""
    decoder, reference = SSEDecoder(event_fields=event_fields), Reference(event_fields=event_fields)
    for chunk in chunks:
        assert fields(decoder.feed(chunk)) == reference.feed(chunk)
        assert decoder.last_event_id_bytes == reference.last_event_id
        assert decoder.retry_ms == reference.retry_ms
    return decoder


@pytest.mark.parametrize("event_fields", [(), (b"error",)])
@given(blocks=runs(), places=st.lists(st.integers(0, 2000), max_size=8))
@example(blocks=[b"data: a\n\n", b"data: a\n\n", b"data: b\nid: 1\n\n", b"data: c\n\n"], places=[])
@example(blocks=[b"retry: 1\ndata: a\n\n"] * 3 + [b"retry: 2\ndata: a\n\n"], places=[])
@settings(max_examples=75, deadline=None)
def test_runs_of_any_shapes_in_any_chunks(
    event_fields: tuple[bytes, ...], blocks: list[bytes], places: list[int]
) -> None:
    wire = b"".join(blocks)
    halves = [wire[: len(wire) // 2], wire[len(wire) // 2 :]]
    for chunks in (blocks, [wire], halves, cut(wire, places), one_by_one(wire)):
        assert_same(chunks, event_fields)


@given(
    blocks=runs(),
    places=st.lists(st.integers(0, 2000), max_size=8),
    limit=st.integers(1, 60),
    keep_as_text=st.integers(1, 60),
)
@settings(max_examples=75, deadline=None)
def test_the_limit_holds_in_every_shape(
    blocks: list[bytes], places: list[int], limit: int, keep_as_text: int
) -> None:
    wire = b"".join(blocks)
    for chunks in (blocks, [wire], cut(wire, places), one_by_one(wire)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_decode, "_MAX_PENDING_BYTES", keep_as_text)
            decoder = SSEDecoder(limit)
        reference = Reference(limit)
        expected: list[Event] = []
        found: list[Event] = []
        too_large = False
        try:
            for chunk in chunks:
                expected += reference.feed(chunk)
        except TooLarge:
            expected += reference.partial
            too_large = True
        try:
            for chunk in chunks:
                found += fields(decoder.feed(chunk))
        except SSEEventTooLarge as error:
            found += fields(error.events)
            assert too_large
        else:
            assert not too_large
            assert decoder.last_event_id_bytes == reference.last_event_id
            assert decoder.retry_ms == reference.retry_ms
        assert found == expected


# That the templates are in use, or the comparisons above would say nothing about them.


def filled(shape: str, number: int) -> bytes:
    for field, value in (("%d", '{"a": 1}'), ("%i", "s:"), ("%e", "message"), ("%r", "3000")):
        shape = shape.replace(field, value + (str(number) if field in ("%d", "%i") else ""))
    return shape.replace("|", "\n").encode() + b"\n\n"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("shape", COMMON)
@pytest.mark.parametrize("events_per_chunk", [1, 2, 50])
def test_the_common_shapes_are_read_with_a_template(
    shape: str, events_per_chunk: int, line_end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [filled(shape, number).replace(b"\n", line_end) for number in range(100)]
    chunks = [
        b"".join(blocks[start : start + events_per_chunk])
        for start in range(0, len(blocks), events_per_chunk)
    ]
    decoder = assert_same(chunks[:1])
    assert decoder._template is not None
    decoder.feed(blocks[0])

    def unused(*_args: object) -> None:
        raise AssertionError("read line by line")

    monkeypatch.setattr(_decode, "read_blocks", unused)
    for chunk in chunks[1:]:
        assert len(decoder.feed(chunk)) == events_per_chunk
    rest = b"".join(blocks)
    size = 97
    found = [decoder.feed(rest[start : start + size]) for start in range(0, len(rest), size)]
    assert sum(map(len, found)) == 100
    assert decoder._misses == 0


@pytest.mark.parametrize("odd_every", [2, 3, 10])
def test_other_blocks_between_do_no_harm(odd_every: int) -> None:
    blocks = [
        b": ping\n\n" if number % odd_every == 0 else b"event: a\nid: %d\ndata: x\n\n" % number
        for number in range(60)
    ]
    wire = b"".join(blocks)
    assert_same(blocks)
    assert_same([wire])
    assert_same([wire[start : start + 100] for start in range(0, len(wire), 100)])


def test_a_single_other_block_keeps_the_template() -> None:
    decoder = assert_same([b"id: 1\ndata: x\n\n"] * 3)
    template = decoder._template
    decoder.feed(b": ping\n\n")
    assert decoder._template is template is not None
    decoder.feed(b"id: 2\ndata: x\n\n")
    assert decoder._misses == 0


def test_a_new_shape_replaces_the_template() -> None:
    decoder = assert_same([b"data: x\n\n"] * 3)
    for _ in range(2):
        decoder.feed(b"event: a\ndata: y\n\n")
    decoder.feed(b"event: a\ndata: y\n\n")
    assert decoder._misses == 0


def test_shapes_that_always_change_are_learned_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: list[bytes] = []
    real: Callable[[bytes], object] = learn

    def counted(block: bytes) -> object:
        learned.append(block)
        return real(block)

    monkeypatch.setattr(_decode, "learn", counted)
    shapes = ["data: %d", "id: %i|data: %d", "event: %e|data: %d", "data: %d|id: %i"]
    decoder = SSEDecoder()
    for number in range(1000):
        assert len(decoder.feed(filled(shapes[number % 4], number))) == 1
    assert 0 < len(learned) < 20


def test_a_huge_event_among_short_ones() -> None:
    short, huge = b"id: 1\ndata: x\n\n", b"id: 2\nretry: 5\ndata: " + b"y" * 200_000 + b"\n\n"
    wire = short * 5 + huge + short * 5
    decoder = SSEDecoder()
    found: list[Event] = []
    for start in range(0, len(wire), 5000):
        found += fields(decoder.feed(wire[start : start + 5000]))
    assert found == Reference().feed(wire)
    assert decoder.retry_ms == 5


# Events one after the other, and then the error


def test_events_come_before_the_error() -> None:
    decoder = SSEDecoder(10)
    events = decoder.events(b"data: a\n\nid: 1\ndata: b\n\ndata: " + b"x" * 11 + b"\n\ndata: c\n\n")
    assert next(events) == ServerSentEvent(b"a")
    assert next(events) == ServerSentEvent(b"b", b"", b"1")
    with pytest.raises(SSEEventTooLarge) as caught:
        next(events)
    assert caught.value.limit == 10


def test_events_are_those_of_feed_when_all_fit() -> None:
    chunks = [b"data: a\n\nda", b"ta: b\n\n", b"", b"event: e\r\ndata: c\r\n\r\n"]
    one, two = SSEDecoder(), SSEDecoder()
    for chunk in chunks:
        assert list(one.events(chunk)) == two.feed(chunk)


def test_bytes_count_even_if_nobody_iterates() -> None:
    decoder = SSEDecoder()
    decoder.events(b"id: 1\ndata: a\n\n")
    assert decoder.last_event_id == "1"
