"""The JSON value of an answer while it arrives."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm import Finish, Restarted, TextDelta
from coreason_client.llm._json import GrowingValue

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values, st.lists(st.integers(0, 200)))
def test_the_last_value_is_the_whole_one(value: Any, cuts: list[int]) -> None:
    text = json.dumps(value)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    growing, seen = GrowingValue(), []
    for start, end in pairwise(edges):
        if growing.add(TextDelta(text[start:end])):
            seen.append(growing.value)
    if growing.finish():
        seen.append(growing.value)
    assert seen[-1] == value
    assert all(one != other for one, other in pairwise(seen))


def test_a_long_text_is_parsed_a_bounded_number_of_times() -> None:
    growing, changes = GrowingValue(), 0
    for piece in ["[", *["1,"] * 20_000]:
        changes += growing.add(TextDelta(piece))
    assert changes < 1500


def test_other_deltas_and_other_texts() -> None:
    growing = GrowingValue()
    assert not growing.add(Finish("stop"))
    assert not growing.add(TextDelta("I am sorry"))
    assert not growing.finish()
    assert not growing.add(Restarted("m", "broke"))
    assert growing.add(TextDelta("[1"))
    assert growing.value == [1]
