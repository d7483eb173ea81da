"""JSON objects as protobuf messages and back, compared with the official messages."""

from typing import Any

import pytest
from a2a.types import a2a_pb2
from google.protobuf import json_format  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.a2a._grpc._messages import (
    message_type,
    parse_message,
    to_json_object,
    to_message,
)
from tests.a2a.grpc.values import objects_of

NAMES = [
    "SendMessageRequest",
    "StreamResponse",
    "Task",
    "ListTasksRequest",
    "ListTasksResponse",
    "TaskPushNotificationConfig",
    "AgentCard",
]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_an_object_is_the_same_for_the_official_messages(name: str, data: Any) -> None:
    value = data.draw(objects_of(f"lf.a2a.v1.{name}"))
    official = json_format.ParseDict(value, getattr(a2a_pb2, name)())
    ours = to_message(f"lf.a2a.v1.{name}", value)
    expected = json_format.MessageToDict(official)
    assert to_json_object(ours) == expected
    # Each side reads what the other has written.
    assert type(official).FromString(ours.SerializeToString()) == official
    again = parse_message(message_type(f"lf.a2a.v1.{name}"), official.SerializeToString())
    assert to_json_object(again) == expected
    # The second round changes nothing any more.
    assert to_message(f"lf.a2a.v1.{name}", expected) == ours


# The object, and what is left of it after a round trip.
TABLE: list[tuple[str, Any, Any]] = [
    ("Part", {"text": ""}, {"text": ""}),
    ("Part", {"data": None}, {"data": None}),
    ("Part", {"data": {"n": 3, "x": 1.5}}, {"data": {"n": 3, "x": 1.5}}),
    ("Part", {"raw": "AP8="}, {"raw": "AP8="}),
    ("Part", {"raw": "AP8"}, {"raw": "AP8="}),
    ("Part", {"text": "a", "metadata": {}}, {"text": "a", "metadata": {}}),
    ("Part", {"text": "a\ud800b"}, {"text": "a\ufffdb"}),
    ("Part", {"text": "\U0001f600"}, {"text": "\U0001f600"}),
    ("Message", {"role": "ROLE_USER", "extensions": []}, {"role": "ROLE_USER"}),
    ("Message", {"messageId": "m", "contextId": None}, {"messageId": "m"}),
    ("Message", {"messageId": "m", "unknown": [1]}, {"messageId": "m"}),
    ("TaskStatus", {"state": "TASK_STATE_WORKING"}, {"state": "TASK_STATE_WORKING"}),
    ("TaskStatus", {"state": "TASK_STATE_FUTURE"}, {}),
    ("GetTaskRequest", {"id": "t", "historyLength": 0}, {"id": "t", "historyLength": 0}),
    ("ListTasksResponse", {"nextPageToken": "", "tasks": []}, {}),
    ("TaskArtifactUpdateEvent", {"append": False, "lastChunk": True}, {"lastChunk": True}),
    (
        "TaskStatus",
        {"timestamp": "2026-01-02T03:04:05.678+01:00"},
        {"timestamp": "2026-01-02T02:04:05.678Z"},
    ),
]


@pytest.mark.parametrize(("name", "value", "kept"), TABLE)
def test_what_is_kept(name: str, value: Any, kept: Any) -> None:
    message = to_message(f"lf.a2a.v1.{name}", value)
    data = message.SerializeToString()
    assert to_json_object(parse_message(message_type(f"lf.a2a.v1.{name}"), data)) == kept


def test_whole_numbers_stay_whole() -> None:
    value = {"data": {"n": 3, "big": 2**53, "list": [1, 2.5]}}
    found = to_json_object(to_message("lf.a2a.v1.Part", value))["data"]
    assert [type(number) for number in (found["n"], found["big"], *found["list"])] == [
        int,
        int,
        int,
        float,
    ]


def test_an_unknown_enum_number_is_kept() -> None:
    found = parse_message(message_type("lf.a2a.v1.TaskStatus"), b"\x08\x63")
    assert to_json_object(found) == {"state": 99}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"messageId": 4}, "messageId"),
        ({"parts": 3}, "parts"),
        ({"metadata": {"x": float("nan")}}, "nan"),
        ({"metadata": {"x": float("inf")}}, "inf"),
    ],
)
def test_what_cannot_be_sent_is_an_error(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        to_message("lf.a2a.v1.Message", value)


def test_nesting_is_limited() -> None:
    value: Any = {}
    for _ in range(300):
        value = {"a": value}
    with pytest.raises(ValueError, match="too deep"):
        to_message("lf.a2a.v1.Message", {"metadata": value})


@given(st.binary(max_size=40))
@settings(deadline=None)
def test_any_bytes_are_a_message_or_a_value_error(data: bytes) -> None:
    try:
        found = parse_message(message_type("lf.a2a.v1.StreamResponse"), data)
    except ValueError:
        return
    assert isinstance(to_json_object(found), dict)


def test_a_number_that_json_does_not_have_is_an_error() -> None:
    message = message_type("lf.a2a.v1.Task")()
    message.metadata.fields["x"].number_value = float("inf")
    with pytest.raises(ValueError, match="a value that JSON does not have"):
        to_json_object(message)
