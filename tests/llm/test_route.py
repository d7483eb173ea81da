"""The provider, the address and the key of a call."""

from pathlib import Path
from typing import Any

import pytest

from coreason_client.llm import AsyncLLMClient, LLMAuthenticationError, LLMError, LLMRequestError
from coreason_client.llm._route import Target, provider_prefix
from coreason_client.llm.providers.profiles import PROFILES

KEY = "sk-own"
OTHERS = {"anthropic": "sk-ant", "gemini": "sk-gem", "openai": "sk-oai"}


def target(base_url: str | None = None, **options: Any) -> Target:
    return Target(base_url, options.pop("api_key", KEY), **options)


@pytest.mark.proves("AI-2-base-url", "AI-2-providers")
@pytest.mark.parametrize(
    ("base_url", "model", "name", "base", "sent"),
    [
        (None, "gpt-4o", "openai", "https://api.openai.com/v1", "gpt-4o"),
        (None, "openai/gpt-4o", "openai", "https://api.openai.com/v1", "gpt-4o"),
        ("https://api.openai.com", "gpt-4o", "openai", "https://api.openai.com/v1", "gpt-4o"),
        # A host that is known decides, and names pass as they are.
        (
            *("https://openrouter.ai", "anthropic/claude-opus-4"),
            *("openrouter", "https://openrouter.ai/api/v1", "anthropic/claude-opus-4"),
        ),
        (
            *("https://openrouter.ai/api/v1", "openrouter/auto"),
            *("openrouter", "https://openrouter.ai/api/v1", "openrouter/auto"),
        ),
        (
            *("https://api.groq.com/openai/v1", "openai/gpt-oss-120b"),
            *("groq", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b"),
        ),
        ("https://api.groq.com", "groq/llama", "groq", "https://api.groq.com/openai/v1", "llama"),
        (
            *("https://api.openai.com/v1", "anthropic/claude"),
            *("openai", "https://api.openai.com/v1", "anthropic/claude"),
        ),
        (
            *("https://api.anthropic.com", "claude-opus-4"),
            *("anthropic", "https://api.anthropic.com/v1", "claude-opus-4"),
        ),
        (
            *("https://generativelanguage.googleapis.com", "gemini/gemini-2.5-pro"),
            *("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-2.5-pro"),
        ),
        (
            *("https://generativelanguage.googleapis.com/v1beta/openai/", "gemini-2.5-pro"),
            "gemini-openai",
            *("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-pro"),
        ),
        ("https://api.deepseek.com", "deepseek-chat", "deepseek", "https://api.deepseek.com", None),
        ("http://localhost:11434", "llama3", "ollama", "http://localhost:11434/api", "llama3"),
        ("http://box:11434/", "ollama/llama3", "ollama", "http://box:11434/api", "llama3"),
        (
            *("http://localhost:11434/v1", "ollama/llama3"),
            *("ollama-openai", "http://localhost:11434/v1", "llama3"),
        ),
        (
            *("https://mine.openai.azure.com", "my-deployment"),
            *("azure", "https://mine.openai.azure.com/openai/v1", "my-deployment"),
        ),
        # Elsewhere the prefix decides, and without one it is compatible with OpenAI.
        ("http://proxy:8080", "anthropic/claude", "anthropic", "http://proxy:8080/v1", "claude"),
        ("http://proxy:8080", "gemini/g", "gemini", "http://proxy:8080/v1beta", "g"),
        ("http://proxy:8080", "vertex/g", "vertex", "http://proxy:8080/v1", "g"),
        ("http://proxy:8080", "bedrock/m:0", "bedrock", "http://proxy:8080", "m:0"),
        # A region is a part of the host.
        (
            *("https://bedrock-runtime.us-east-1.amazonaws.com", "amazon.nova-pro-v1:0"),
            *("bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com", None),
        ),
        (
            *("https://bedrock-runtime-fips.us-east-1.amazonaws.com/", "bedrock/m"),
            *("bedrock", "https://bedrock-runtime-fips.us-east-1.amazonaws.com", "m"),
        ),
        (
            *("https://a-b.bedrock-runtime.us-east-1.vpce.amazonaws.com", "m"),
            *("bedrock", "https://a-b.bedrock-runtime.us-east-1.vpce.amazonaws.com", "m"),
        ),
        (
            *("https://aiplatform.googleapis.com/v1/projects/p/locations/global", "g"),
            *("vertex", "https://aiplatform.googleapis.com/v1/projects/p/locations/global", "g"),
        ),
        (
            *("https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu", "g"),
            *("vertex", "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu", "g"),
        ),
        ("http://proxy:8080", "ollama/llama3", "ollama", "http://proxy:8080/api", "llama3"),
        ("http://proxy:8080", "openai/gpt-4o", "openai", "http://proxy:8080/v1", "gpt-4o"),
        ("http://proxy/llm/v2/", "a/b", "openai-compatible", "http://proxy/llm/v2", "a/b"),
        # Not known, though it looks like it.
        (
            *("https://api.openai.com.evil.example", "gpt-4o"),
            *("openai-compatible", "https://api.openai.com.evil.example/v1", "gpt-4o"),
        ),
    ],
)
def test_the_way_of_a_model(
    base_url: str | None, model: str, name: str, base: str, sent: str | None
) -> None:
    route = target(base_url).route(model)
    assert (route.profile.name, route.base, route.model) == (name, base, sent or model)
    assert route.key == KEY


OPENROUTER = "https://openrouter.ai/api/v1"
GROQ = "https://api.groq.com/openai/v1"
PROXY = "http://proxy:8080"
VERTEX = (
    "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google"
)


@pytest.mark.parametrize(
    ("chosen_by", "model", "name", "sent"),
    [
        # OpenRouter names every model `maker/model`, its own ones `openrouter/…`.
        ("key", "openrouter/openai/gpt-4o", "openrouter", "openai/gpt-4o"),
        ("key", "openrouter/anthropic/claude-opus-4.5:beta", "openrouter", None),
        ("key", "openrouter/auto", "openrouter", "openrouter/auto"),
        ("key", "openrouter/openrouter/auto", "openrouter", "openrouter/auto"),
        ("key", "openrouter/free", "openrouter", "openrouter/free"),
        (OPENROUTER, "openai/gpt-4o", "openrouter", "openai/gpt-4o"),
        (OPENROUTER, "openrouter/openai/gpt-4o", "openrouter", "openai/gpt-4o"),
        (OPENROUTER, "openrouter/auto", "openrouter", "openrouter/auto"),
        (OPENROUTER, "openrouter/openrouter/auto", "openrouter", "openrouter/auto"),
        (OPENROUTER, "groq/compound", "openrouter", "groq/compound"),
        (OPENROUTER, "deepseek/deepseek-r1:free", "openrouter", "deepseek/deepseek-r1:free"),
        (OPENROUTER, "@preset/mine", "openrouter", "@preset/mine"),
        (PROXY, "openrouter/openai/gpt-4o", "openrouter", "openai/gpt-4o"),
        (PROXY, "openrouter/auto", "openrouter", "openrouter/auto"),
        # Groq's own systems are named `groq/compound…`, the rest bare or after their makers.
        ("key", "groq/compound", "groq", "groq/compound"),
        ("key", "groq/compound-mini", "groq", "groq/compound-mini"),
        ("key", "groq/groq/compound", "groq", "groq/compound"),
        ("key", "groq/llama-3.3-70b-versatile", "groq", "llama-3.3-70b-versatile"),
        ("key", "groq/openai/gpt-oss-120b", "groq", "openai/gpt-oss-120b"),
        (GROQ, "groq/compound", "groq", "groq/compound"),
        (GROQ, "groq/groq/compound-mini", "groq", "groq/compound-mini"),
        (GROQ, "llama-3.3-70b-versatile", "groq", "llama-3.3-70b-versatile"),
        (GROQ, "openai/gpt-oss-120b", "groq", "openai/gpt-oss-120b"),
        (GROQ, "meta-llama/llama-4-scout-17b-16e-instruct", "groq", None),
        # Prefixes are removed once, and paths behind them stay.
        ("key", "together/meta-llama/Llama-3.3-70B-Instruct-Turbo", "together", None),
        ("https://api.together.xyz/v1", "openai/gpt-oss-20b", "together", "openai/gpt-oss-20b"),
        ("key", "fireworks/accounts/fireworks/models/x", "fireworks", None),
        ("https://api.fireworks.ai", "accounts/fireworks/models/x", "fireworks", None),
        ("https://api.fireworks.ai", "fireworks/accounts/me/models/x", "fireworks", None),
        ("key", "deepseek/deepseek-chat", "deepseek", "deepseek-chat"),
        ("key", "xai/grok-4", "xai", "grok-4"),
        ("key", "mistral/mistral-large-latest", "mistral", "mistral-large-latest"),
        ("key", "anthropic/claude-opus-4-5", "anthropic", "claude-opus-4-5"),
        ("key", "openai/gpt-4o", "openai", "gpt-4o"),
        ("key", "openai/ft:gpt-4o:me::1", "openai", "ft:gpt-4o:me::1"),
        # Tags and namespaces of Ollama.
        ("key", "ollama/llama3.3:70b-instruct-q4_K_M", "ollama", "llama3.3:70b-instruct-q4_K_M"),
        ("http://box:11434", "hf.co/maker/model-GGUF:Q4_K_M", "ollama", None),
        ("http://box:11434", "ollama/hf.co/maker/model:Q4", "ollama", "hf.co/maker/model:Q4"),
        ("http://box:11434/v1", "ollama/llama3", "ollama-openai", "llama3"),
        # Deployments of Azure are named by their owners.
        ("https://mine.openai.azure.com", "gpt-4o", "azure", "gpt-4o"),
        ("https://mine.openai.azure.com", "azure/my-deployment", "azure", "my-deployment"),
        ("https://mine.services.ai.azure.com", "Mistral-Large-3", "azure", "Mistral-Large-3"),
        # Gemini takes names with and without their kind.
        ("key", "gemini/gemini-2.5-pro", "gemini", "gemini-2.5-pro"),
        ("key", "gemini/models/gemini-2.5-pro", "gemini", "models/gemini-2.5-pro"),
        ("https://generativelanguage.googleapis.com", "models/gemini-2.5-pro", "gemini", None),
        ("https://generativelanguage.googleapis.com", "tunedModels/mine", "gemini", None),
        (VERTEX, "gemini/gemini-2.5-pro", "vertex", "gemini-2.5-pro"),
        (VERTEX, "vertex/gemini-2.5-pro", "vertex", "gemini-2.5-pro"),
        (VERTEX, "gemini-2.5-pro", "vertex", "gemini-2.5-pro"),
        (VERTEX, "anthropic/claude-opus-4-5@20251101", "vertex", "claude-opus-4-5@20251101"),
        # Elsewhere: a name without a known prefix is sent as it is.
        (PROXY, "meta-llama/Llama-3.1-8B-Instruct", "openai-compatible", None),
        (PROXY, "groq/compound", "groq", "groq/compound"),
    ],
)
def test_the_name_that_is_sent(chosen_by: str, model: str, name: str, sent: str | None) -> None:
    """`sent` is None where it is the model without the prefix of its provider, if it has one."""
    if chosen_by == "key":
        given = target(keys={profile.name: "k" for profile in PROFILES})
    else:
        given = target(chosen_by)
    route = given.route(model)
    assert (route.profile.name, route.model) == (name, sent or model.removeprefix(f"{name}/"))


def test_the_query_of_a_base_url_is_kept() -> None:
    url = "https://x.openai.azure.com/openai/deployments/dep?api-version=2024-10-21"
    route = target(url).route("gpt-4o")
    assert (route.base, route.query) == (url.partition("?")[0], "api-version=2024-10-21")
    assert route.headers["api-key"] == KEY


@pytest.mark.parametrize(
    ("model", "header", "value"),
    [
        ("openai/m", "Authorization", f"Bearer {KEY}"),
        ("anthropic/m", "x-api-key", KEY),
        ("gemini/m", "x-goog-api-key", KEY),
        ("azure/m", "api-key", KEY),
        ("vertex/m", "Authorization", f"Bearer {KEY}"),
        ("bedrock/m", "Authorization", f"Bearer {KEY}"),
        ("ollama/m", "Authorization", f"Bearer {KEY}"),
    ],
)
def test_the_header_of_the_key(model: str, header: str, value: str) -> None:
    route = target("http://proxy:8080").route(model)
    assert route.headers[header] == value
    assert sum(KEY in text for text in route.headers.values()) == 1
    assert KEY not in repr(route)


@pytest.mark.parametrize("model", ["anthropic/claude", "gemini/g", "mistral/m"])
def test_a_key_is_not_sent_to_another_provider(model: str) -> None:
    with pytest.raises(LLMAuthenticationError, match=r"the key is for https://api\.openai\.com/v1"):
        target().route(model)


@pytest.mark.parametrize("base_url", [None, "https://api.openai.com/v1"])
def test_a_provider_with_a_key_of_its_own_is_asked_at_its_own_address(base_url: str | None) -> None:
    route = target(base_url, keys=OTHERS).route("anthropic/claude")
    assert (route.base, route.key) == ("https://api.anthropic.com/v1", "sk-ant")
    assert KEY not in str(dict(route.headers))


def test_a_key_of_its_own_leads_past_a_proxy_too() -> None:
    """A local model with a fallback in the cloud."""
    ours = target("http://127.0.0.1:8000/v1", keys=OTHERS)
    assert ours.route("llama3").base == "http://127.0.0.1:8000/v1"
    route = ours.route("anthropic/claude")
    assert (route.base, route.key) == ("https://api.anthropic.com/v1", "sk-ant")
    assert ours.route("mistral/m").base == "http://127.0.0.1:8000/v1"


def test_a_key_in_the_environment_does_not_lead_past_an_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    monkeypatch.delenv("LLM_API_BASE_URL", raising=False)

    def base(**options: Any) -> str:
        return AsyncLLMClient.from_env(**options)._target.route("anthropic/claude").base

    assert base() == "https://api.anthropic.com/v1"
    assert base(base_url="https://api.openai.com/v1") == "https://api.anthropic.com/v1"
    assert base(base_url="http://proxy:8080") == "http://proxy:8080/v1"
    monkeypatch.setenv("LLM_API_BASE_URL", "http://proxy:8080")
    assert base() == "http://proxy:8080/v1"


def test_openai_s_own_key_is_for_models_that_are_named_so() -> None:
    bare = target(api_key=None, keys=OTHERS)
    assert bare.route("openai/gpt-4o").key == "sk-oai"
    with pytest.raises(LLMAuthenticationError, match=r"OPENAI_API_KEY is for models named openai/"):
        bare.route("gpt-4o")


def test_headers_of_the_caller_stay_at_its_base_url() -> None:
    ours = target("https://api.openai.com/v1", keys=OTHERS, headers={"X-Secret": "s"})
    assert ours.route("gpt-4o").headers["X-Secret"] == "s"
    assert "X-Secret" not in ours.route("anthropic/claude").headers


@pytest.mark.parametrize("model", ["ollama/llama3", "vllm/m", "lmstudio/m", "llamacpp/m"])
def test_a_model_on_this_machine_needs_no_key(model: str) -> None:
    route = target(api_key=None).route(model)
    assert route.base.startswith("http://127.0.0.1:")
    assert "Authorization" not in route.headers
    assert "Authorization" not in target().route(model).headers


@pytest.mark.parametrize("base_url", [None, "https://api.anthropic.com", "http://127.0.0.1:9"])
def test_a_missing_key_is_told(base_url: str | None) -> None:
    with pytest.raises(LLMAuthenticationError, match="set LLM_API_KEY, or pass api_key"):
        target(base_url, api_key=None).route("m")


def test_the_provider_can_be_named() -> None:
    route = target("http://gpu:8000/v1", provider="openai-compatible").route("openai/gpt-oss-120b")
    assert (route.profile.name, route.model) == ("openai-compatible", "openai/gpt-oss-120b")


@pytest.mark.parametrize("model", ["openai/", "anthropic/", "openrouter/", "groq/"])
def test_a_prefix_alone_is_no_model(model: str) -> None:
    with pytest.raises(LLMError):
        target("http://proxy:8080").route(model)


def test_azure_needs_an_address() -> None:
    with pytest.raises(LLMRequestError, match="pass base_url"):
        target(keys={"azure": "k"}).route("azure/m")


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "api.openai.com",
        "ftp://x",
        "http://",
        "http://h:99999",
        "http://a b",
        "http://u:p@h",
        "http://h/#x",
        "http://h/v1/chat/completions/",
        "http://h/v1/responses",
        7,
    ],
)
def test_an_address_that_cannot_be(base_url: Any) -> None:
    with pytest.raises(ValueError, match="base_url must"):
        AsyncLLMClient("k", base_url)


def test_a_header_of_the_caller_replaces_ours_whatever_the_case_of_its_name() -> None:
    route = target("https://api.openai.com/v1", headers={"authorization": "Token x"}).route("m")
    sent = {name: value for name, value in route.headers.items() if name.lower() == "authorization"}
    assert sent == {"authorization": "Token x"}


@pytest.mark.parametrize("key", ["", "a b", "a\n", "é", 7])
def test_a_key_that_cannot_be_sent(key: Any) -> None:
    with pytest.raises(ValueError, match=r"must (not be empty|be visible ASCII)") as caught:
        AsyncLLMClient(key)
    if key:
        assert str(key) not in str(caught.value)


def test_a_provider_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match=r"^provider must be one of openai, .*, got 'acme'$"):
        AsyncLLMClient("k", provider="acme")
    with pytest.raises(ValueError, match=r"^each name in keys must be one of .*, got 'acme'$"):
        AsyncLLMClient("k", keys={"acme": "k"})


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-4o", "openai"),
        ("anthropic/claude-sonnet-4", "anthropic"),
        ("openai", "openai"),
    ],
)
def test_the_provider_that_a_model_names(model: str, provider: str) -> None:
    assert provider_prefix(model) == provider


@pytest.mark.parametrize(
    ("model", "header"),
    [
        ("openai/m", "Authorization"),
        ("anthropic/m", "x-api-key"),
        ("azure/m", "Authorization"),  # a token of Entra ID, not a key
        ("vertex/m", "Authorization"),
    ],
)
def test_the_header_of_a_key_that_a_callable_returned(model: str, header: str) -> None:
    route = target("http://proxy:8080", api_key=lambda: "token").route(model)
    assert (route.key, header in route.headers) == (None, False)
    fetched = route.with_key("a-token-of-an-hour")
    assert fetched.headers[header].removeprefix("Bearer ") == "a-token-of-an-hour"
    assert "api-key" not in fetched.headers
    assert fetched.redact("a-token-of-an-hour") == "***"
    assert "a-token-of-an-hour" not in repr(fetched)
    assert fetched.without_key().headers == route.headers


def test_a_header_of_the_caller_stays_when_the_key_is_fetched() -> None:
    headers = {"authorization": "Token x", "X-A": "b"}
    route = target("http://proxy:8080", api_key=lambda: "token", headers=headers).route("m")
    fetched = route.with_key("a-token-of-an-hour")
    assert {**fetched.headers, **headers} == fetched.headers
    assert "Authorization" not in fetched.headers


def test_other_providers_can_have_their_own_address() -> None:
    urls = {"azure": "https://mine.openai.azure.com", "anthropic": "http://proxy:1/v9?a=b"}
    ours = target(keys={"azure": "k", "anthropic": "k"}, base_urls=urls)
    assert ours.route("azure/m").base == "https://mine.openai.azure.com/openai/v1"
    route = ours.route("anthropic/claude")
    assert (route.base, route.query) == ("http://proxy:1/v9", "a=b")
    assert ours.route("gpt-4o").base == "https://api.openai.com/v1"


def test_a_name_without_a_slash_is_no_prefix() -> None:
    assert target("http://proxy:8080", provider="openai").route("openai").model == "openai"


def test_secrets_in_the_query_of_a_base_url_are_redacted() -> None:
    base_url = "https://proxy.example/v1?code=s3cret%2Fcode&api-version=2024-10-21&sig=abc"
    route = target(base_url).route("m")
    text = "/v1/chat/completions?code=s3cret%2Fcode&api-version=2024-10-21 s3cret/code"
    assert route.redact(text) == "/v1/chat/completions?code=***&api-version=2024-10-21 ***"


@pytest.mark.parametrize("model", ["nosuch/model", "OpenAI/gpt-4o", "/model"])
def test_an_unknown_prefix_is_refused_unless_there_is_a_base_url(model: str) -> None:
    """The key of OpenAI must not go to OpenAI for a model of somebody else."""
    with pytest.raises(LLMRequestError, match="there is no provider") as caught:
        target(None).route(model)
    assert KEY not in str(caught.value)
    with pytest.raises(LLMRequestError, match="there is no provider"):
        provider_prefix(model)
    assert target("http://proxy:8080").route(model).model == model
    assert Target(None, KEY, provider="openrouter").route(model).model == model
