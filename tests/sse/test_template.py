"""Templates: which blocks have one, and that they read exactly what the line reader reads.

`test_shapes.py` compares the whole decoder with the reference.
"""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coreason_client.sse import ServerSentEvent
from coreason_client.sse._block import Template, learn, read_blocks

LEARNED = [
    *(b"data: a", b"data:a", b"id: 1\ndata: a", b"data: a\nid: 1", b"data: a\ndata: b"),
    *(b"event: e\nid: 1\ndata: a", b"retry: 5\ndata: a", b": comment\ndata: a"),
    *(b"id:1\ndata: a", b"data:a\ndata: b", b"id: 1\nevent: e\nretry: 7\ndata:a"),
]
NOT_LEARNED = [
    *(b"", b"data", b"id: 1", b"event: a", b": comment", b"retry: 1", b"data: a\nid"),
    *(b"data: a\nevent: b", b"data: a\n: comment", b"other: 1\ndata: a", b"error: a"),
    *(b"data: a\ndata: b\ndata: c", b"id: 1\nid: 2\ndata: a", b"id: 1\ndata: a\ndata: b"),
    b"\ndata: a",
]


def template_of(block: bytes) -> Template:
    template = learn(block)
    assert template is not None
    return template


@pytest.mark.parametrize("block", LEARNED)
def test_a_block_that_ends_with_a_value_has_a_template(block: bytes) -> None:
    template = template_of(block)
    expected: list[ServerSentEvent] = []
    read_blocks(block + b"\n", expected, b"before", ())
    assert template.read_one(block + b"\n\n", b"before") == expected


@pytest.mark.parametrize("block", NOT_LEARNED)
def test_a_block_of_another_shape_has_no_template(block: bytes) -> None:
    assert learn(block) is None


@pytest.mark.parametrize(("size", "is_learned"), [(1024, True), (1025, False)])
def test_the_constant_text_has_a_limit(size: int, is_learned: bool) -> None:
    head = b": " + b"x" * (size - len(b": \ndata: ")) + b"\ndata: "
    assert len(head) == size
    assert (learn(head + b"a") is not None) is is_learned
    assert learn(b"data: " + b"a" * 5000) is not None  # values are not constant text


@pytest.mark.parametrize(
    ("block", "retry_ms"),
    [
        (b"data: a", None),
        (b"retry: 5\ndata: a", 5),
        (b"retry: 5\nretry: 7\ndata: a", 7),
        (b"retry: 5\nretry: x\ndata: a", 5),
        (b"retry:6\ndata: a", 6),
    ],
)
def test_the_reconnection_time_is_part_of_the_template(block: bytes, retry_ms: int | None) -> None:
    assert template_of(block).retry_ms == retry_ms


@pytest.mark.parametrize(
    ("learned", "text"),
    [
        (b"data: a", b"data: b\n"),  # not complete
        (b"data: a", b"data:b\n\n"),
        (b"data: a", b"data: b\ndata: c\n\n"),
        (b"data: a", b"data: b\n\ndata: c\n\n"),
        (b"data: a", b"id: 1\ndata: b\n\n"),
        (b"data:a", b"data: b\n\n"),  # a space would have to be dropped
        (b"data:a", b"data:\n\n"),
        (b"id: 1\ndata: a", b"id: 1\n\n"),
        (b"id: 1\ndata: a", b"id: 1\0\ndata: b\n\n"),
        (b"id:1\ndata: a", b"id: 1\ndata: b\n\n"),
        (b"id: 1\ndata:a", b"id: 1\ndata: b\n\n"),
        (b"data: a\nid: 1", b"data: b\nid: 1\0\n\n"),
        (b"data: a\nid: 1", b"data: b\nevent: e\nid: 1\n\n"),
        (b"data: a\ndata: b", b"data: a\n\n"),
        (b"data: a\ndata: b", b"data: a\ndata: b\ndata: c\n\n"),
        (b"data:a\ndata:b", b"data:a\ndata: b\n\n"),
    ],
)
def test_a_text_that_is_not_one_block_of_this_shape_is_left_to_others(
    learned: bytes, text: bytes
) -> None:
    assert template_of(learned).read_one(text, b"") is None


def test_nothing_is_read_if_the_last_block_has_another_shape() -> None:
    events: list[ServerSentEvent] = []
    text = b"data: a\n\nid: 1\ndata: b\n\n"
    assert template_of(b"data: x").read(text, len(text), events, b"", ()) is None
    assert events == []


def test_blocks_of_other_shapes_between_are_read_line_by_line() -> None:
    events: list[ServerSentEvent] = []
    text = b": ping\n\nid: 1\ndata: a\n\nretry: 9\n\nid: 2\ndata: b\ndata: c\n\nid: 3\ndata: d\n\n"
    read = template_of(b"id: x\ndata: x").read(text, len(text), events, b"", ())
    assert read == (b"3", 9)
    assert [(event.data, event.id) for event in events] == [("a", "1"), ("b\nc", "2"), ("d", "3")]


def test_the_last_reconnection_time_is_that_of_the_last_block() -> None:
    events: list[ServerSentEvent] = []
    text = b"retry: 9\n\nretry: 5\ndata: a\n\nretry: 8\n\nretry: 5\ndata: b\n\n"
    template = template_of(b"retry: 5\ndata: x")
    assert template.read(text, len(text), events, b"", ()) == (b"", 5)
    assert [event.data for event in events] == ["a", "b"]


def test_text_after_the_end_is_not_read() -> None:
    events: list[ServerSentEvent] = []
    text = b"data: a\n\ndata: b\n\n"
    read = template_of(b"data: x").read(text + b"data: c", len(text), events, b"7", ())
    assert read == (b"7", None)
    assert [(event.data, event.id) for event in events] == [("a", "7"), ("b", "7")]


values = st.sampled_from(
    [b"x", b"", b" ", b" x", b"!", b"\0", b"a\0b", b":", b"data: y", b"id: 7", b"event: e", b"\t"]
)
lines = st.one_of(
    st.builds(
        lambda name, value: name + value,
        st.sampled_from([b"data: ", b"data: ", b"id: ", b"data:", b"id:", b"error: "]),
        values,
    ),
    st.sampled_from([b"event: e", b": c", b"retry: 5", b"data", b"id"]),
)
blocks = st.lists(lines, min_size=1, max_size=3).map(b"\n".join)


@settings(max_examples=100)
@given(st.lists(blocks, min_size=1, max_size=4), st.sampled_from(LEARNED), st.booleans())
@example([b"data: a\nid: 1\0", b"data: b\nid: 2"], b"data: a\nid: 1", False)
@example([b"data: y\ndata: x", b"data: x\ndata: x"], b"data: a\ndata: b", False)
def test_a_template_reads_what_the_line_reader_reads(
    wire: list[bytes], learned: bytes, same: bool
) -> None:
    """If `same`, the template is that of the last block, so that it applies."""
    template = (learn(wire[-1]) if same else None) or template_of(learned)
    text = b"".join(block + b"\n\n" for block in wire)
    fields = (b"error",)
    expected: list[ServerSentEvent] = []
    state = read_blocks(text[:-1], expected, b"before", fields)
    found: list[ServerSentEvent] = []
    read = template.read(text, len(text), found, b"before", fields)
    if read is None:
        assert found == []
    else:
        assert (read, found) == (state, expected)
    one = template.read_one(text, b"before")
    assert one is None or one == expected
