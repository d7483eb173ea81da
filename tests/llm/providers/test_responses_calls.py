"""The pieces of tool calls belong to the right call, however a server identifies it."""

from typing import Any

import pytest

from coreason_client.llm.providers._responses_reader import CallNumbers

A: dict[str, Any] = {"call_id": "call_a", "id": "fc_a"}
B: dict[str, Any] = {"call_id": "call_b", "id": "fc_b"}


def two(first: int | None = None, second: int | None = None) -> CallNumbers:
    """The numbers after two calls have begun, at these indexes."""
    numbers = CallNumbers()
    assert numbers.of_item(A, first) == 0
    assert numbers.of_item(B, second) == 1
    return numbers


def test_a_call_id_is_enough() -> None:
    numbers = two()
    assert numbers.of_item({"call_id": "call_a"}, None) == 0
    assert numbers.of_item({"call_id": "call_b", "id": "changed"}, 0) == 1


@pytest.mark.parametrize(
    ("event", "number"),
    [
        ({"item_id": "fc_a"}, 0),
        ({"item_id": "fc_b"}, 1),
        ({"item_id": "call_a"}, 0),
        ({"output_index": 3}, 0),
        ({"output_index": 4, "item_id": "changed"}, 1),
        ({"item_id": "fc_a", "output_index": 4}, 0),
        ({}, 1),
        ({"item_id": "unknown"}, 1),
    ],
)
def test_arguments_belong_to_the_call_that_they_name_or_to_the_open_one(
    event: dict[str, Any], number: int
) -> None:
    assert two(3, 4).of_event(event) == number


def test_arguments_after_a_complete_call_begin_another_one() -> None:
    numbers = two()
    numbers.close(1)
    assert numbers.of_event({}) == 2
    assert numbers.of_event({}) == 2


def test_closing_an_earlier_call_leaves_the_latest_open() -> None:
    numbers = two()
    numbers.close(0)
    assert numbers.of_event({}) == 1


def test_another_call_at_a_used_index_is_a_new_one() -> None:
    numbers = two(0, 0)
    assert numbers.of_event({"output_index": 0}) == 1
    assert numbers.of_item({"call_id": "call_c"}, 0) == 2


def test_a_call_whose_arguments_arrived_first_is_not_a_new_one() -> None:
    numbers = CallNumbers()
    assert numbers.of_event({"output_index": 2, "item_id": "fc_a"}) == 0
    assert numbers.of_item(A, 2) == 0
    assert numbers.of_item(B, 3) == 1


def test_an_item_without_any_identity_is_the_open_call() -> None:
    numbers = CallNumbers()
    assert numbers.of_item({}, None) == 0
    assert numbers.of_item({}, None) == 0
    numbers.close(0)
    assert numbers.of_item({}, None) == 1


@pytest.mark.parametrize(
    ("item", "position", "number"),
    [
        (A, 1, 0),
        ({"id": "fc_b"}, 0, 1),
        ({}, 0, 0),
        ({}, 1, 1),
        ({}, 2, 2),
        ({"call_id": "call_c"}, 0, 2),
        ({"call_id": "call_c"}, 2, 2),
    ],
)
def test_the_calls_of_the_complete_answer(item: dict[str, Any], position: int, number: int) -> None:
    assert two().of_final(item, position) == number


def test_the_position_counts_if_the_calls_had_no_call_id() -> None:
    numbers = CallNumbers()
    numbers.of_item({"id": "fc_a"}, None)
    numbers.of_item({"id": "fc_b"}, None)
    assert numbers.of_final({"call_id": "call_b"}, 1) == 1
    assert numbers.of_final({"call_id": "call_a"}, 0) == 0
