"""The state of a stream: repeated events, repeated texts, paragraphs of reasoning."""

from typing import Any

import pytest

from coreason_client.llm.providers._responses_state import (
    EventSequence,
    ItemText,
    Thoughts,
    item_key,
)


@pytest.mark.parametrize(
    ("numbers", "repeated", "last"),
    [
        ([0, 1, 2], [False, False, False], 2),
        ([5, 7, 6, 8], [False, False, True, False], 8),
        ([0, 1, 1, 0, 2], [False, False, True, True, False], 2),
        ([None, "1", -1, True, 1.5], [False] * 5, 1),
        ([3, 3, 3, 4], [False] * 4, None),
        ([3, 2, 1], [False] * 3, None),
    ],
)
def test_repeated_events(numbers: list[Any], repeated: list[bool], last: int | None) -> None:
    sequence = EventSequence()
    assert [sequence.is_repeated(number) for number in numbers] == repeated
    assert sequence.last == last


def test_what_a_complete_text_adds() -> None:
    text = ItemText()
    text.add("Hel")
    assert text.missing(0, "Hello") == "lo"
    assert text.missing(0, "Hello") == ""
    assert text.missing(0, "Hello!") == "!"


def test_a_text_that_differs_adds_nothing() -> None:
    text = ItemText()
    text.add("Hel")
    assert text.missing(0, "Goodbye") == ""


def test_the_next_item_begins_anew() -> None:
    text = ItemText()
    assert text.missing(0, "A") == "A"
    assert text.missing(1, "A") == "A"
    text.add("B")
    assert text.missing(2, "BC") == "C"
    text.begin()
    assert text.missing(2, "BC") == "BC"


def test_paragraphs_of_reasoning() -> None:
    thoughts = Thoughts()
    first: dict[str, Any] = {"output_index": 0, "summary_index": 0}
    assert thoughts.add(first, "A") == "A"
    assert thoughts.add(first, "B") == "B"
    assert thoughts.add({**first, "summary_index": 1}, "C") == "\n\nC"
    summary = [{"text": "AB"}, {"text": "C"}]
    assert thoughts.missing(0, {"summary": summary}) == ""
    assert thoughts.missing(0, {"summary": [*summary, {"text": "D"}]}) == "\n\nD"
    assert thoughts.add({"output_index": 1}, "E") == "\n\nE"
    assert thoughts.missing(1, {"summary": [{"text": "EF"}]}) == "F"
    assert thoughts.missing(2, {"content": [{"text": "G"}]}) == "\n\nG"
    assert thoughts.missing(3, {}) == ""


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"output_index": 0, "item_id": "a"}, 0),
        ({"item_id": "a"}, "a"),
        ({"id": "a"}, "a"),
        ({"output_index": None, "id": 7}, ""),
        ({}, ""),
    ],
)
def test_the_index_identifies_an_item_otherwise_its_id(value: dict[str, Any], key: Any) -> None:
    assert item_key(value) == key
