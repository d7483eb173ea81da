"""The wire table of lists of models."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import Malformed
from coreason_client.llm.providers.model_lists import MODEL_LISTS

BASE = "https://models.example/v1"

URLS = [
    ("openai", None, f"{BASE}/models"),
    ("responses", None, f"{BASE}/models"),
    ("anthropic", None, f"{BASE}/models?limit=1000"),
    ("anthropic", "a/b&c", f"{BASE}/models?limit=1000&after_id=a%2Fb%26c"),
    ("gemini", None, f"{BASE}/models?pageSize=1000"),
    ("gemini", "x=", f"{BASE}/models?pageSize=1000&pageToken=x%3D"),
    ("ollama", None, f"{BASE}/tags"),
    ("bedrock", None, f"{BASE}/foundation-models"),
]


def test_the_models_of_bedrock_are_on_another_host() -> None:
    for host in ("us-east-1.amazonaws.com", "cn-north-1.amazonaws.com.cn"):
        found = MODEL_LISTS["bedrock"].url(f"https://bedrock-runtime.{host}", None)
        assert found == f"https://bedrock.{host}/foundation-models"


@pytest.mark.parametrize(("wire", "cursor", "url"), URLS)
def test_the_url_of_a_page(wire: str, cursor: str | None, url: str) -> None:
    assert MODEL_LISTS[wire].url(BASE, cursor) == url


PAGES: list[tuple[str, Any, list[Mapping[str, Any]], str | None]] = [
    (
        "openai",
        {
            "object": "list",
            "data": [
                {"id": "gpt-4o", "object": "model", "created": 1715367049, "owned_by": "system"},
                {"id": "whisper-1", "created": 0},
            ],
        },
        [{"id": "gpt-4o", "created": "2024-05-10T18:50:49Z"}, {"id": "whisper-1"}],
        None,
    ),
    (
        "openai",
        [{"id": "a/b", "context_length": 8192}],
        [{"id": "a/b", "context_window": 8192}],
        None,
    ),
    (
        "openai",
        {
            "data": [
                {
                    "id": "openai/gpt-4o",
                    "name": "OpenAI: GPT-4o",
                    "context_length": 128000,
                    "top_provider": {"max_completion_tokens": 16384},
                }
            ]
        },
        [
            {
                "id": "openai/gpt-4o",
                "name": "OpenAI: GPT-4o",
                "context_window": 128000,
                "max_output_tokens": 16384,
            }
        ],
        None,
    ),
    (
        "openai",
        {"data": [{"id": "m", "context_window": 5, "max_completion_tokens": 4}]},
        [{"id": "m", "context_window": 5, "max_output_tokens": 4}],
        None,
    ),
    (
        "openai",
        {"data": [{"id": "m", "max_model_len": 5}]},
        [{"id": "m", "context_window": 5}],
        None,
    ),
    (
        "openai",
        {"data": [{"id": "m", "max_context_length": 5}]},
        [{"id": "m", "context_window": 5}],
        None,
    ),
    (
        "openai",
        {"data": [None, 5, {}, {"id": 7}, {"id": ""}, {"id": "m", "created": "x", "name": 5}]},
        [{"id": "m"}],
        None,
    ),
    (
        "anthropic",
        {
            "data": [
                {
                    "type": "model",
                    "id": "claude-sonnet-4-5",
                    "display_name": "Claude Sonnet 4.5",
                    "created_at": "2025-09-29T00:00:00Z",
                    "max_input_tokens": 200000,
                    "max_tokens": 64000,
                }
            ],
            "has_more": True,
            "first_id": "claude-sonnet-4-5",
            "last_id": "claude-sonnet-4-5",
        },
        [
            {
                "id": "claude-sonnet-4-5",
                "name": "Claude Sonnet 4.5",
                "created": "2025-09-29T00:00:00Z",
                "context_window": 200000,
                "max_output_tokens": 64000,
            }
        ],
        "claude-sonnet-4-5",
    ),
    ("anthropic", {"data": [], "has_more": False, "last_id": "x"}, [], None),
    ("anthropic", {"data": [], "has_more": True, "last_id": None}, [], None),
    (
        "gemini",
        {
            "models": [
                {
                    "name": "models/gemini-2.5-flash",
                    "displayName": "Gemini 2.5 Flash",
                    "inputTokenLimit": 1048576,
                    "outputTokenLimit": 65536,
                    "supportedGenerationMethods": ["generateContent"],
                }
            ],
            "nextPageToken": "abc",
        },
        [
            {
                "id": "gemini-2.5-flash",
                "name": "Gemini 2.5 Flash",
                "context_window": 1048576,
                "max_output_tokens": 65536,
            }
        ],
        "abc",
    ),
    ("gemini", {"models": [{"name": "models/"}, None]}, [], None),
    (
        "ollama",
        {"models": [{"name": "llama3.2:latest", "model": "llama3.2:latest"}, {"name": "b"}, {}]},
        [{"id": "llama3.2:latest"}, {"id": "b"}],
        None,
    ),
    (
        "bedrock",
        {"modelSummaries": [{"modelId": "amazon.nova-pro-v1:0", "modelName": "Nova Pro"}, None]},
        [{"id": "amazon.nova-pro-v1:0", "name": "Nova Pro"}],
        None,
    ),
]


@pytest.mark.parametrize(("wire", "reply", "models", "cursor"), PAGES)
def test_a_page(wire: str, reply: Any, models: list[Any], cursor: str | None) -> None:
    page = MODEL_LISTS[wire].read(reply, "acme")
    assert page.models == [{**model, "provider": "acme"} for model in models]
    assert page.cursor == cursor


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini", "ollama", "bedrock"])
@pytest.mark.parametrize("reply", [{}, {"data": {}, "models": {}}, {"data": None, "models": 5}])
def test_a_reply_without_a_list_is_malformed(wire: str, reply: Any) -> None:
    with pytest.raises(Malformed, match="the list of models must have"):
        MODEL_LISTS[wire].read(reply, "acme")


_KEYS = st.sampled_from(["id", "name", "created", "created_at", "top_provider", "context_length"])
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini", "ollama"])
@given(found=st.lists(_ANYTHING, max_size=3))
def test_every_model_of_any_list_has_an_id(wire: str, found: Any) -> None:
    for model in MODEL_LISTS[wire].read({"data": found, "models": found}, "acme").models:
        assert model["id"]
        assert isinstance(model["id"], str)
