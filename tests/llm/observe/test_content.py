"""Messages in the form of the conventions."""

import json
from typing import Any

import pytest

from coreason_client.llm.observe._attributes import (
    as_json,
    input_messages,
    output_messages,
    tool_definitions,
)

TEXT = {"type": "text", "content": "Hi"}


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ({"role": "user", "content": "Hi"}, [TEXT]),
        ({"role": "user", "content": [{"type": "text", "text": "Hi"}]}, [TEXT]),
        (
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "http://x/i"}}],
            },
            [{"type": "uri", "modality": "image", "uri": "http://x/i"}],
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,A"}}]},
            [{"type": "image_url", "modality": "image"}],
        ),
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "QUJD"}}]},
            [{"type": "input_audio", "modality": "audio"}],
        ),
        (
            {
                "role": "assistant",
                "content": None,
                "reasoning": "hm",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "c2", "name": "g", "arguments": {"a": 1}},
                ],
            },
            [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "c1", "name": "f", "arguments": "{}"},
                {"type": "tool_call", "id": "c2", "name": "g", "arguments": {"a": 1}},
            ],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            [{"type": "tool_call_response", "id": "c1", "response": "sunny"}],
        ),
    ],
)
def test_a_message(message: dict[str, Any], parts: list[Any]) -> None:
    assert json.loads(input_messages([message])) == [{"role": message["role"], "parts": parts}]


def test_the_name_of_a_participant_is_kept() -> None:
    [found] = json.loads(input_messages([{"role": "user", "content": "Hi", "name": "Ann"}]))
    assert found == {"role": "user", "parts": [TEXT], "name": "Ann"}


def test_an_answer() -> None:
    data = {
        "content": "Hi",
        "reasoning": "hm",
        "tool_calls": [{"id": "c", "name": "f", "arguments": {}}],
        "media": [{"type": "image", "mime_type": "image/png", "data": "QUJD"}],
    }
    [found] = json.loads(output_messages(data))
    assert found["parts"] == [
        {"type": "reasoning", "content": "hm"},
        TEXT,
        {"type": "blob", "modality": "image", "mime_type": "image/png"},
        {"type": "tool_call", "id": "c", "name": "f", "arguments": {}},
    ]


def test_tools() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "d"}}
    assert json.loads(tool_definitions([tool])) == [
        {"type": "function", "name": "f", "description": "d"}
    ]


def test_any_value_can_be_recorded() -> None:
    assert json.loads(as_json({"a": object})) == {"a": str(object)}
    assert as_json(float("nan")) == "NaN"
