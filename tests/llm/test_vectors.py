"""The vectors of embeddings, as lists and in base64."""

import struct
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import Malformed
from coreason_client.llm.providers.embeddings import vector_of

_FLOATS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20)


@given(_FLOATS)
def test_both_forms_of_a_vector_are_the_same(numbers: list[float]) -> None:
    packed = b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
    assert vector_of(packed) == vector_of(numbers) == numbers


def test_whole_numbers_become_floats() -> None:
    [first, second] = vector_of([0, 1])
    assert (type(first), type(second)) == (float, float)


NAN = b64encode(struct.pack("<f", float("nan"))).decode()


@pytest.mark.parametrize(
    "value",
    [
        *(None, [], "", {}, 5, [None], ["1"], [[1.0]], [10**400], [float("nan")]),
        *([float("inf"), float("-inf")], [1.0, float("inf")], NAN, "AAA=", "A", "AAAA AAAA", "ä"),
    ],
)
def test_anything_else_is_malformed(value: Any) -> None:
    with pytest.raises(Malformed, match="an embedding must be"):
        vector_of(value)
