"""The state of a stream: repeated events, repeated texts, paragraphs of reasoning."""

from typing import Any

import pytest

from coreason_client.llm.providers._responses_items import (
    EventSequence,
    ItemText,
    Thoughts,
    item_key,
)


@pytest.mark.parametrize(
    ("numbers", "places", "last"),
    [
        ([0, 1, 2], [None] * 3, 2),
        ([5, 6, 5, 7], [None, None, "repeated", None], 7),
        ([0, 1, 1, 0, 2], [None, None, "repeated", "repeated", None], 2),
        ([0, 1, 3, 4, 2, 3], [None, None, "skipping", "skipping", None, None], 3),
        ([None, "1", -1, True, 1.5], [None] * 5, 1),
        ([3, 3, 3, 4], [None] * 4, None),
        ([3, 2, 1], [None] * 3, None),
    ],
)
def test_repeated_and_missing_events(
    numbers: list[Any], places: list[str | None], last: int | None
) -> None:
    sequence = EventSequence()
    assert [sequence.place(number) for number in numbers] == places
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
