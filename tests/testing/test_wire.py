from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.testing import ModelToolCall, ModelTurn
from coreason_client.testing import _fake_model as _routes
from coreason_client.testing._models._wire import Chunk, before_break, script_of
from tests.each import each

WIRES = [wire for _, wire in _routes._WIRES]
TEXTS = st.lists(st.text(min_size=1), max_size=3)
TURNS = st.builds(
    ModelTurn,
    TEXTS,
    st.lists(st.builds(ModelToolCall, st.just("f"), st.lists(st.text(min_size=1))), max_size=2),
    TEXTS,
)


@given(TURNS, st.sampled_from(WIRES), st.data())
def test_an_answer_breaks_off_after_its_pieces(turn: ModelTurn, wire: Any, data: Any) -> None:
    after = data.draw(st.integers(0, turn.pieces) | st.just("content"))
    chunks = [*wire.stream(script_of(turn, {}, "m", 1, 1))]
    sent = [*before_break(chunks, after)]
    limit = turn.pieces if after == "content" else after
    received = sum(chunk.pieces for chunk in sent)
    assert sent == chunks[: len(sent)]
    assert received <= limit
    assert not any(chunk.is_end for chunk in sent)
    # Only a call that the wire sends as a whole can be missing although a part of it may be sent.
    following = chunks[len(sent)]
    assert received == limit or received + following.pieces > limit
    assert sum(chunk.pieces for chunk in chunks) == turn.pieces


# A piece, a call of three pieces that is one chunk, what stands between, and the end.
CHUNKS = [
    Chunk(b"s"),
    Chunk(b"1", 1),
    Chunk(b"s"),
    Chunk(b"2", 1),
    Chunk(b"345", 3),
    Chunk(b"s"),
    Chunk(b"e", is_end=True),
]


@pytest.mark.proves("KIT-model-breaks")
@each(
    ("after", "expected"),
    [(0, "s"), (1, "s1"), (2, "s1s2"), (3, "s1s2"), (5, "s1s2345"), ("content", "s1s2345s")],
)
def test_where_an_answer_breaks_off(after: Any, expected: str) -> None:
    assert b"".join(chunk.data for chunk in before_break(CHUNKS, after)).decode() == expected
