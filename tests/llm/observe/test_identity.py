"""The id and the model of an answer, in every wire format."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm.observe._attributes import Identity, read_identity

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "model", "message", "response", "responseId"]), inner
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"id": "chatcmpl-1", "model": "gpt"}, ("chatcmpl-1", "gpt")),  # OpenAI
        ({"id": "msg_1", "type": "message", "model": "claude"}, ("msg_1", "claude")),  # Anthropic
        (
            {"type": "message_start", "message": {"id": "msg_1", "model": "claude"}},
            ("msg_1", "claude"),
        ),
        ({"responseId": "r1", "modelVersion": "gemini"}, ("r1", "gemini")),  # Gemini
        ([{"responseId": "r1", "modelVersion": "gemini"}, {}], ("r1", "gemini")),
        ({"model": "llama", "message": {"content": "a"}}, ("", "llama")),  # Ollama
        (
            {"type": "response.created", "response": {"id": "resp_1", "model": "gpt"}},
            ("resp_1", "gpt"),
        ),
        ({"output": {"message": {"content": []}}}, ("", "")),  # Bedrock
        ({"id": 7, "model": None}, ("", "")),
        ([], ("", "")),
        ("text", ("", "")),
    ],
)
def test_the_identity_of_a_reply(reply: Any, expected: tuple[str, str]) -> None:
    assert read_identity(json.dumps(reply).encode()) == expected


def test_bytes_that_are_not_json_have_none() -> None:
    assert read_identity(b"[DONE]") == Identity()


def test_a_later_event_fills_what_is_missing() -> None:
    assert Identity("", "m").merged(Identity("1", "other")) == ("1", "m")


@given(JSON)
def test_any_json_is_read(value: Any) -> None:
    found = read_identity(json.dumps(value).encode())
    assert all(isinstance(part, str) for part in found)
