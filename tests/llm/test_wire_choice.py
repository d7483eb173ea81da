"""The choice between chat completions and the Responses API."""

from typing import Any

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.llm import AsyncLLMClient, LLMClient, LLMRequestError
from coreason_client.llm._route import Target, check_wire

OPENAI = "https://api.openai.com/v1"
AZURE = "https://x.openai.azure.com"


def wire(model: str, base: str | None = None, **options: Any) -> str:
    return Target(base, "sk-1", **options).route(model).profile.wire


@pytest.mark.parametrize(
    "model",
    [
        "o1-pro",
        "o1-pro-2025-03-19",
        "o3-pro",
        "gpt-5-pro",
        "gpt-5-pro-2025-10-06",
        "gpt-5.2-pro",
        "gpt-5-codex",
        "gpt-5.1-codex-max",
        "gpt-5.3-codex",
        "codex-mini-latest",
        "o3-deep-research",
        "o4-mini-deep-research-2025-06-26",
        "computer-use-preview",
        "openai/gpt-5-pro",
    ],
)
def test_models_that_exist_only_in_the_responses_api(model: str) -> None:
    assert wire(model) == wire(model, OPENAI) == "responses"
    assert wire(model, wire="chat") == "openai"


@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "gpt-5", "gpt-5.1", "o3", "o1", "gpt-4-turbo", "gpt-4o-prod", "o1-preview"],
)
def test_other_models_are_asked_in_chat_completions(model: str) -> None:
    assert wire(model) == wire(model, AZURE) == wire(model, wire="chat") == "openai"
    assert wire(model, wire="responses") == wire(model, AZURE, wire="responses") == "responses"


def test_the_names_mean_nothing_at_other_providers() -> None:
    assert wire("gpt-5-pro", AZURE) == "responses"
    assert wire("openai/gpt-5-pro", "https://openrouter.ai/api/v1") == "openai"
    assert wire("gpt-5-pro", "http://127.0.0.1:9") == "openai"


def test_the_older_addresses_of_azure_have_only_chat_completions() -> None:
    base = f"{AZURE}/openai/deployments/d"
    assert wire("gpt-5-pro", base) == "openai"
    with pytest.raises(LLMRequestError, match=r"azure that ends with /openai/v1") as caught:
        wire("gpt-5-pro", base, wire="responses")
    assert caught.value.provider == "azure"


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://api.together.xyz/v1", "together"),
    ],
)
def test_a_provider_without_the_api_is_an_error(base: str, name: str) -> None:
    with pytest.raises(LLMRequestError, match=f'"responses" for {name}.*: leave out wire'):
        wire("m", base, wire="responses")
    assert wire("m", base, wire="chat") == wire("m", base)


def test_ollama_has_the_api_at_another_address() -> None:
    with pytest.raises(LLMRequestError, match="pass a base_url ending with /v1"):
        wire("m", "http://127.0.0.1:11434", wire="responses")
    assert wire("m", "http://127.0.0.1:11434/v1", wire="responses") == "responses"


def test_other_providers_use_it_if_they_can() -> None:
    keys = {"anthropic": "sk-2", "xai": "sk-3"}
    options: dict[str, Any] = {"keys": keys, "wire": "responses"}
    assert wire("xai/grok-4", **options) == "responses"
    assert wire("anthropic/claude-opus-4-5", **options) == "anthropic"
    assert wire("xai/grok-4", keys=keys) == "openai"


def test_no_answer_can_be_continued_there() -> None:
    base = "http://127.0.0.1:8000/v1"
    assert Target(base, None, provider="vllm").route("m").profile.prefix_form is not None
    route = Target(base, None, provider="vllm", wire="responses").route("m")
    assert route.profile.prefix_form is None
    assert route.profile.name == "vllm"


@pytest.mark.parametrize("value", ["response", "", 7, ["chat"], True])
@pytest.mark.parametrize("client", [LLMClient, AsyncLLMClient])
def test_an_unknown_wire_is_rejected_at_once(client: Any, value: Any) -> None:
    with pytest.raises(ArgumentError, match="wire must be None or one of responses, chat"):
        client(wire=value)


@pytest.mark.parametrize("value", [None, "responses", "chat"])
def test_a_known_wire(value: Any) -> None:
    assert check_wire(value) == value
