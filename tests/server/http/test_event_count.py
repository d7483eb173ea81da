"""The end of an event in the bytes of a stream, however they are cut into chunks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.http._cuts import EventCount
from coreason_client.sse import SSEDecoder

BLOCKS = st.sampled_from(
    ["data: 1\n\n", "id: 7\ndata: a\ndata: b\n\n", ": comment\n\n", "retry: 5\n\n", "event: x\n\n"]
)


def chunks_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(
    st.lists(BLOCKS, max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 1000), max_size=8),
    st.integers(1, 5),
)
def test_what_is_passed_on_has_exactly_the_wanted_events(
    blocks: list[str], line_end: str, cuts: list[int], most: int
) -> None:
    stream = "".join(blocks).replace("\n", line_end).encode()
    count, passed = EventCount(), b""
    for chunk in chunks_of(stream, cuts):
        passed += chunk[: count.feed(chunk, most - count.count)]
        if count.count == most:
            break
    events = sum(block.count("data:") > 0 for block in blocks)
    # A byte after the end, because a decoder waits for the line feed that may follow a CR.
    assert len(list(SSEDecoder().feed(passed + b"x"))) == min(events, most) == count.count
    assert events >= most or passed == stream


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_line_end_in_two_chunks_is_one(size: int) -> None:
    stream, count = b"data: 1\r\n\r\ndata: 2\r\n\r\n", EventCount()
    for start in range(0, len(stream), size):
        chunk = stream[start : start + size]
        assert count.feed(chunk) == len(chunk)
    assert count.count == 2
