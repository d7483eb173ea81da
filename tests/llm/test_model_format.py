"""The interface of lists of models."""

from coreason_client.llm.providers import ADAPTERS
from coreason_client.llm.providers.model_lists import MODEL_LISTS, ModelPage


def test_a_page_without_a_cursor_is_the_last() -> None:
    assert ModelPage([]).cursor is None


def test_the_wires_without_a_list_are_known() -> None:
    assert ADAPTERS.keys() - MODEL_LISTS.keys() == {"vertex", "vertex-claude"}
