"""The names of the fields in requests of 1.0."""

from typing import Any

import pytest
from a2a.types import a2a_pb2
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.a2a._protocol import json_name, with_json_names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("task_id", "taskId"),
        ("status_timestamp_after", "statusTimestampAfter"),
        ("taskId", "taskId"),
        ("id", "id"),
        ("_task", "_task"),
        ("task_", "task_"),
        ("task__id", "task__id"),
        ("Task_id", "Task_id"),
        ("täsk_id", "täsk_id"),
        ("", ""),
    ],
)
def test_a_name_of_the_proto_file_becomes_camel_case(name: str, expected: str) -> None:
    assert json_name(name) == expected


def test_every_field_of_the_protocol_gets_the_name_that_protobuf_gives_it() -> None:
    for message in a2a_pb2.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            assert json_name(field.name) == field.json_name


def test_objects_and_lists_in_an_object_are_converted_too() -> None:
    given = {
        "message": {"message_id": "m", "parts": [{"media_type": "text/plain"}, "x", None]},
        "configuration": {"history_length": 1},
    }
    assert with_json_names(given) == {
        "message": {"messageId": "m", "parts": [{"mediaType": "text/plain"}, "x", None]},
        "configuration": {"historyLength": 1},
    }


def test_the_content_of_the_client_stays_as_it_is() -> None:
    given = {"metadata": {"a_b": {"c_d": 1}}, "message": {"parts": [{"data": {"e_f": 2}}]}}
    assert with_json_names(given) == given


@pytest.mark.parametrize("names", [("task_id", "taskId"), ("taskId", "task_id")])
def test_of_both_names_the_json_name_counts(names: tuple[str, str]) -> None:
    assert with_json_names({name: name for name in names}) == {"taskId": "taskId"}


@given(
    st.recursive(
        st.dictionaries(st.text(max_size=6), st.none() | st.integers()),
        lambda inner: st.dictionaries(st.text(max_size=6), inner | st.lists(inner, max_size=2)),
        max_leaves=6,
    )
)
def test_converting_twice_changes_nothing_more(value: dict[str, Any]) -> None:
    once = with_json_names(value)
    assert with_json_names(once) == once
