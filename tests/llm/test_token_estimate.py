"""Estimates of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import estimate, estimate_bytes, estimate_text


@given(st.lists(st.text(st.characters()), max_size=5))
def test_any_text_can_be_estimated(texts: list[str]) -> None:
    size = sum(len(said.encode("utf-8", "surrogatepass")) for said in texts)
    assert 4 * len(texts) <= estimate(texts) <= size / 4 + 1 + 4 * len(texts)


@pytest.mark.parametrize(("length", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (43, 11)])
def test_four_bytes_are_a_token(length: int, tokens: int) -> None:
    assert estimate_bytes(length) == estimate_text("x" * length) == tokens
    assert estimate(["x" * length]) == tokens + 4
