"""The interface of embedding formats."""

import pytest

from coreason_client.llm.providers import ADAPTERS
from coreason_client.llm.providers.embeddings import EMBEDDINGS, EmbedFormat


def test_every_operation_must_be_written() -> None:
    assert EmbedFormat.__abstractmethods__ == {"url", "body", "read"}


@pytest.mark.parametrize("wire", sorted(EMBEDDINGS))
def test_a_format_has_no_state(wire: str) -> None:
    assert not vars(EMBEDDINGS[wire])


def test_the_wires_without_embeddings_are_known() -> None:
    assert ADAPTERS.keys() - EMBEDDINGS.keys() == {"anthropic", "vertex-claude"}
