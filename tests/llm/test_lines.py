"""Lines of NDJSON: the same whatever the chunks, bounded, and linear."""

from collections.abc import Iterable
from itertools import pairwise, takewhile
from time import thread_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.llm._frames import LineDecoder, LineTooLong

LIMIT = 12

# Mostly what ends or pads a line, so that every order of these comes.
wires = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"a", b'{"b": 1}', "ü€".encode(), b"\0", b"\xff"])
).map(b"".join)
places = st.lists(st.integers(0, 80), max_size=8)


def cut(wire: bytes, at: Iterable[int]) -> list[bytes]:
    """Cut at these places; two equal ones make an empty chunk, which must do no harm."""
    edges = [0, *sorted(min(place, len(wire)) for place in at), len(wire)]
    return [wire[start:end] for start, end in pairwise(edges)]


def decoded(chunks: Iterable[bytes], limit: int = 10**6) -> list[bytes] | None:
    """All lines, or None when one was too long."""
    decoder = LineDecoder(limit)
    lines: list[bytes] = []
    try:
        for chunk in chunks:
            lines += decoder.feed(chunk)
        return lines + decoder.flush()
    except LineTooLong:
        return None


@given(wires, places)
@example(b"a\r\nb\r\n", [2, 3])
@example(b"a\nb", [1])
def test_any_chunks_give_the_same_lines(wire: bytes, at: list[int]) -> None:
    expected = [line.strip(b"\r ") for line in wire.split(b"\n") if line.strip(b"\r ")]
    assert decoded([wire]) == expected
    assert decoded(cut(wire, at)) == expected
    assert decoded(wire[index : index + 1] for index in range(len(wire))) == expected


@given(wires, places)
@example(b"a" * LIMIT + b"\r\n", [])  # the limit is for the line as it came
@example(b"\n" + b"a" * LIMIT + b"\r\n", [])
@example(b" " * (LIMIT + 1), [3])
def test_a_line_is_too_long_whatever_the_chunks(wire: bytes, at: list[int]) -> None:
    too_long = any(len(line) > LIMIT for line in wire.split(b"\n"))
    for chunks in ([wire], cut(wire, at), cut(wire, range(len(wire)))):
        assert (decoded(chunks, LIMIT) is None) is too_long


def test_a_line_comes_as_soon_as_it_has_ended() -> None:
    decoder = LineDecoder(100)
    assert decoder.feed(b'{"a": 1}') == []
    assert decoder.feed(b'\n{"b"') == [b'{"a": 1}']
    assert decoder.feed(b": 2}\n\n\r\n{}\n") == [b'{"b": 2}', b"{}"]
    assert decoder.flush() == []


def test_a_last_line_needs_no_end() -> None:
    decoder = LineDecoder(100)
    assert decoder.feed(b"one\ntwo ") == [b"one"]
    assert decoder.flush() == [b"two"]
    assert decoder.flush() == []


def test_the_limit_is_met_exactly() -> None:
    assert decoded([b"x" * LIMIT + b"\n" + b"y" * LIMIT], LIMIT) == [b"x" * LIMIT, b"y" * LIMIT]
    assert decoded([b"short\n" * 100], LIMIT) == [b"short"] * 100


def test_what_has_no_end_is_refused_before_it_is_all_there() -> None:
    decoder = LineDecoder(1000)
    for _ in range(10):
        decoder.feed(b"x" * 100)
    with pytest.raises(LineTooLong):
        decoder.feed(b"x")


def seconds(size: int) -> float:
    """The shortest CPU time that a line of so many bytes takes, in chunks of seven."""
    chunks = [b"x" * 7] * (size // 7) + [b"\n"]
    times = []
    for _ in range(5):
        start = thread_time()
        lines = decoded(chunks, size)
        times.append(thread_time() - start)
        assert lines == [b"x" * (size // 7 * 7)]
    return min(times)


def test_a_long_line_in_small_chunks_takes_linear_time() -> None:
    # 16 times as long: quadratic would be 256 times the time.
    assert seconds(800_000) < 80 * seconds(50_000)


@given(wires, places)
@example(b"a\nb\n" + b"x" * (LIMIT + 1), [])
@example(b"a\n" + b"x" * (LIMIT + 1) + b"\nb\n", [])
@example(b"a\n" + b"x" * (LIMIT + 1) + b"\n", [3])
def test_lines_before_a_too_long_one_are_not_lost(wire: bytes, at: list[int]) -> None:
    whole = wire.split(b"\n")
    good = list(takewhile(lambda line: len(line) <= LIMIT, whole))
    for chunks in ([wire], cut(wire, at), cut(wire, range(len(wire)))):
        decoder = LineDecoder(LIMIT)
        lines: list[bytes] = []
        try:
            for chunk in chunks:
                lines += decoder.feed(chunk)
            lines += decoder.flush()
        except LineTooLong as error:
            lines += error.lines
        assert lines == [line.strip(b"\r ") for line in good if line.strip(b"\r ")]


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b""))), st.integers(1, 9))
def test_lines_are_the_same_whatever_the_chunks(lines: list[bytes], size: int) -> None:
    body = b"\n".join([*lines, b""])
    decoder = LineDecoder(100)
    found = [
        line
        for start in range(0, len(body), size)
        for line in decoder.feed(body[start : start + size])
    ]
    assert found == [line.strip(b"\r ") for line in lines if line.strip(b"\r ")]


def test_a_line_without_an_end_is_bounded() -> None:
    decoder = LineDecoder(100)
    decoder.feed(b"x" * 100)
    with pytest.raises(LineTooLong):
        decoder.feed(b"x")
    with pytest.raises(LineTooLong):
        LineDecoder(100).feed(b"x" * 101 + b"\n")
