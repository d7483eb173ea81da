import pytest

from coreason_client.llm.providers import ADAPTERS
from coreason_client.testing import _fake_model as _routes
from coreason_client.testing._fake_model import (
    background_at,
    embeddings_at,
    model_list_at,
    wire_at,
)
from tests.each import each


@each(
    ("path", "wire"),
    [
        ("/v1/chat/completions", "chat"),
        ("/openai/deployments/d/chat/completions", "chat"),
        ("/v1/responses", "responses"),
        ("/v1/messages", "anthropic"),
        ("/v1beta/models/gemini-3:generateContent", "gemini"),
        ("/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", "gemini"),
        ("/model/anthropic.claude%3A0/converse", "bedrock"),
        ("/model/m/converse-stream", "bedrock"),
        ("/api/chat", "ollama"),
        ("/api/chat/more", None),
        ("/", None),
    ],
)
def test_the_path_shows_the_wire(path: str, wire: str | None) -> None:
    found = wire_at("POST", path)
    assert (None if found is None else found.name) == wire
    assert wire_at("GET", path) is None


@pytest.mark.proves("KIT-model-wires")
def test_every_wire_of_the_ai_client_is_spoken() -> None:
    spoken = {wire.name.replace("chat", "openai") for _, wire in _routes._WIRES}
    elsewhere = {"vertex", "vertex-claude"}  # Gemini's and Anthropic's at other paths
    assert spoken == ADAPTERS.keys() - elsewhere


@each(
    ("method", "path", "embeddings", "models"),
    [
        ("POST", "/v1/embeddings", "openai", None),
        ("POST", "/v1beta/models/m:batchEmbedContents", "gemini", None),
        ("POST", "/x/models/m:predict", "vertex", None),
        ("POST", "/x/models/m:embedContent", "vertex", None),
        ("POST", "/v2/embed", "cohere", None),
        ("POST", "/api/embed", "ollama", None),
        ("POST", "/model/m/invoke", "bedrock", None),
        ("GET", "/v1/models", None, "openai"),
        ("GET", "/v1beta/models", None, "gemini"),
        ("GET", "/api/tags", None, "ollama"),
        ("GET", "/foundation-models", None, "bedrock"),
        ("GET", "/v1/embeddings", None, None),
    ],
)
def test_other_paths(method: str, path: str, embeddings: str | None, models: str | None) -> None:
    assert (embeddings_at(method, path), model_list_at(method, path)) == (embeddings, models)


@each(
    ("method", "path", "found"),
    [
        ("GET", "/v1/responses/resp_1", ("read", "resp_1")),
        ("POST", "/v1/responses/resp_1/cancel", ("cancel", "resp_1")),
        ("POST", "/v1/responses/resp_1", None),
        ("GET", "/v1/responses", None),
    ],
)
def test_background_responses(method: str, path: str, found: tuple[str, str] | None) -> None:
    assert background_at(method, path) == found
