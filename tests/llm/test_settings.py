"""The configuration: the five variables and `.env`, read at the call."""

import asyncio
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import coreason_client.llm as llm
from coreason_client.errors import ArgumentError
from coreason_client.llm import (
    DEFAULT_MODEL,
    AsyncLLMClient,
    AWSCredentials,
    LLMAuthenticationError,
    LLMError,
    LLMRequestError,
    LLMTimeoutError,
    generate,
    generate_sync,
    stream,
)
from coreason_client.llm.settings import CLOUD_VARIABLES, LLMSettings, read_settings
from tests.llm.server import Provider, Received, Replied, provider

DOCS = Path(__file__).parents[2] / "docs" / "llm.md"
VARIABLES = ("LLM_API_KEY", "LLM_API_BASE_URL", "DEFAULT_MODEL", "AI_TIMEOUT", "MAX_RETRIES")
MESSAGES = [{"role": "user", "content": "Hello"}]
ANSWER = Replied(
    body=json.dumps(
        {
            "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        }
    ).encode()
)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without our variables, in an empty folder."""
    clouds = ("_API_KEY", "_ACCESS_TOKEN", "_BEARER_TOKEN_BEDROCK")
    keys = [name for name in os.environ if name.endswith(clouds)]
    for name in (*VARIABLES, *CLOUD_VARIABLES, *keys):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, 20))


def write_env(**values: object) -> None:
    lines = [f"{name}={value}\n" for name, value in values.items()]
    Path(".env").write_text("".join(lines), encoding="utf-8")


# The defaults and the signature.


@pytest.mark.proves("AI-2-base-url", "AI-2-default-model", "AI-2-timeout", "AI-2-max-retries")
@pytest.mark.proves("R33a")
def test_the_defaults() -> None:
    client = AsyncLLMClient.from_env()
    assert client.base_url is None
    assert client.default_model == DEFAULT_MODEL == "gpt-4-turbo"
    assert (client.timeout, client.max_retries) == (60.0, 3)
    assert (client.timeout, client.max_retries) == (
        AsyncLLMClient().timeout,
        AsyncLLMClient().max_retries,
    )


@pytest.mark.proves("AI-2-base-url")
def test_without_a_base_url_it_is_openai() -> None:
    url, _ = sent_to(AsyncLLMClient("sk-some"), DEFAULT_MODEL)
    assert url == "https://api.openai.com/v1/chat/completions"


@pytest.mark.proves("AI-3-signature", "R26a")
@pytest.mark.parametrize("function", [generate, AsyncLLMClient.generate, generate_sync, stream])
def test_the_printed_signature(function: Any) -> None:
    parameters = [
        (parameter.name, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name != "self"
    ]
    assert parameters == [
        ("messages", inspect.Parameter.empty),
        ("model", "gpt-4-turbo"),
        ("tools", None),
        ("temperature", 0.7),
        ("max_tokens", 2000),
    ]


@pytest.mark.proves("AI-3-signature", "R26a")
def test_generate_is_asynchronous() -> None:
    assert inspect.iscoroutinefunction(llm.generate)
    assert inspect.iscoroutinefunction(AsyncLLMClient.generate)


# Where the values come from.


@pytest.mark.proves("AI-2-env", "AI-2-api-key", "AI-2-base-url", "AI-2-default-model")
@pytest.mark.parametrize("place", ["environment", ".env"])
def test_the_variables_are_used(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> Received:
        async with provider(ANSWER) as server:
            values = {
                "LLM_API_KEY": "sk-of-the-variable",
                "LLM_API_BASE_URL": f"{server.url}/api/v7/",
                "DEFAULT_MODEL": "some-model",
            }
            if place == ".env":
                write_env(**values, UNRELATED="yes")
            else:
                for name, value in values.items():
                    monkeypatch.setenv(name, value)
            await generate(MESSAGES)
            [received] = server.received
            return received

    received = run(go())
    assert received.path == "/api/v7/chat/completions"
    assert received.headers["authorization"] == "Bearer sk-of-the-variable"
    assert received.json["model"] == "some-model"


@pytest.mark.proves("AI-2-timeout", "AI-2-max-retries", "R27c", "R27d")
def test_the_limits_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> int:
        async with provider(Replied(silent=True)) as server:
            monkeypatch.setenv("LLM_API_KEY", "sk-some")
            monkeypatch.setenv("LLM_API_BASE_URL", server.url)
            monkeypatch.setenv("AI_TIMEOUT", "0.05")
            monkeypatch.setenv("MAX_RETRIES", "0")
            with pytest.raises(LLMTimeoutError) as caught:
                await generate(MESSAGES)
            assert len(server.received) == caught.value.attempts
            return caught.value.attempts

    assert run(go()) == 1


@pytest.mark.proves("AI-2-env", "R32a")
def test_the_environment_goes_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write_env(LLM_API_KEY="sk-file", DEFAULT_MODEL="of-the-file", AI_TIMEOUT="5")
    monkeypatch.setenv("DEFAULT_MODEL", "of-the-environment")
    found = read_settings()
    assert (found.api_key, found.default_model) == ("sk-file", "of-the-environment")
    assert found.timeout == 5


@pytest.mark.proves("R32a")
def test_the_file_may_be_written_as_people_do() -> None:
    Path(".env").write_text(
        '# settings\nexport LLM_API_KEY="sk-quoted"\n\nDEFAULT_MODEL = spaced # why\nMAX_RETRIES=',
        encoding="utf-8",
    )
    found = read_settings()
    assert (found.api_key, found.default_model) == ("sk-quoted", "spaced")
    assert found.max_retries == 3
    assert issubclass(LLMSettings, importlib.import_module("pydantic_settings").BaseSettings)


@pytest.mark.proves("R27f")
def test_the_variables_are_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> list[Received]:
        async with provider(ANSWER) as server:
            monkeypatch.setenv("LLM_API_BASE_URL", server.url)
            for number in range(3):
                monkeypatch.setenv("LLM_API_KEY", f"sk-{number}")
                monkeypatch.setenv("DEFAULT_MODEL", f"model-{number}")
                await generate(MESSAGES)
            assert server.connections == 1
            return server.received

    received = run(go())
    assert [sent.headers["authorization"] for sent in received] == [
        f"Bearer sk-{number}" for number in range(3)
    ]
    assert [sent.json["model"] for sent in received] == [f"model-{number}" for number in range(3)]


@pytest.mark.proves("R27f")
def test_the_file_is_read_again_when_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    write_env(DEFAULT_MODEL="one")
    assert read_settings().default_model == "one"
    write_env(DEFAULT_MODEL="three")
    assert read_settings().default_model == "three"
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert read_settings().default_model == "gpt-4-turbo"
    write_env(DEFAULT_MODEL="four")
    assert read_settings().default_model == "four"
    Path(".env").unlink()
    assert read_settings().default_model == "gpt-4-turbo"


@pytest.mark.proves("R27f")
def test_only_the_printed_names_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AI_TIMEOUT", "11.25")  # so that nothing is known from before
    monkeypatch.setenv("default_model", "of-somebody-else")
    found = read_settings()
    assert (found.default_model, found.timeout) == ("gpt-4-turbo", 11.25)


def test_an_argument_goes_before_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_MODEL", "of-the-environment")
    monkeypatch.setenv("AI_TIMEOUT", "7")
    client = AsyncLLMClient.from_env(default_model="given")
    assert (client.default_model, client.timeout) == ("given", 7)


@pytest.mark.proves("AI-3-model", "AI-2-default-model")
def test_the_model_of_the_call_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> list[Received]:
        async with provider(ANSWER) as server:
            monkeypatch.setenv("LLM_API_KEY", "sk-some")
            monkeypatch.setenv("LLM_API_BASE_URL", server.url)
            monkeypatch.setenv("DEFAULT_MODEL", "another")
            await generate(MESSAGES, "given")
            await generate(MESSAGES, "gpt-4-turbo")  # by chance the same words as the default
            await generate(MESSAGES)
            return server.received

    assert [sent.json["model"] for sent in run(go())] == ["given", "gpt-4-turbo", "another"]


# What is missing or wrong.


@pytest.mark.proves("R32b", "AI-2-api-key")
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_key_is_told_at_the_first_call(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("LLM_API_KEY", value)
    AsyncLLMClient.from_env()
    with pytest.raises(LLMAuthenticationError, match="set LLM_API_KEY") as caught:
        run(generate(MESSAGES))
    assert caught.value.attempts == 0
    with pytest.raises(LLMAuthenticationError, match="set LLM_API_KEY"):
        generate_sync(MESSAGES)
    with pytest.raises(LLMAuthenticationError, match="set LLM_API_KEY"):
        stream(MESSAGES)


@pytest.mark.proves("R32b", "R27f")
def test_the_import_reads_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "AI_TIMEOUT": "nonsense", "MAX_RETRIES": "-1"}
    program = "from coreason_client.llm import generate, AsyncLLMClient, generate_sync, stream"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("AI_TIMEOUT", value) for value in ("soon", "0", "-1", "nan", "inf", "1e10")),
        *(("MAX_RETRIES", value) for value in ("few", "-1", "1.5")),
        *(("LLM_API_BASE_URL", value) for value in ("api.example", "ftp://h/", "http://u:p@h/v1")),
        *(("LLM_API_KEY", value) for value in ("sk with blank", "sk-ü")),
        ("DEFAULT_MODEL", " "),
    ],
)
def test_a_wrong_value_is_told_with_its_variable(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-some")
    monkeypatch.setenv(name, value)
    with pytest.raises(LLMRequestError, match=name) as caught:
        run(generate(MESSAGES))
    with pytest.raises(LLMRequestError, match=name):
        AsyncLLMClient.from_env()
    assert "sk-" not in str(caught.value)
    assert "sk with" not in str(caught.value)


@pytest.mark.parametrize("name", VARIABLES)
def test_an_empty_value_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = read_settings()
    monkeypatch.setenv(name, "")
    assert read_settings() == empty


def test_a_file_that_is_no_text() -> None:
    Path(".env").write_bytes(b"LLM_API_KEY=\xff\xfe\n")
    with pytest.raises(LLMRequestError, match=r"\.env cannot be read"):
        read_settings()


def test_a_folder_of_that_name_is_no_file() -> None:
    Path(".env").mkdir()
    assert read_settings().default_model == "gpt-4-turbo"


def test_nothing_shows_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-too")
    client = AsyncLLMClient.from_env()
    shown = [repr(read_settings()), repr(LLMSettings()), repr(client), repr(client._target)]
    assert not [text for text in shown if "sk-secret" in text]


# The keys of single providers.


def sent_to(client: AsyncLLMClient, model: str) -> tuple[str, Any]:
    """The address and the key of a call."""
    plan = client.stream(
        MESSAGES, model
    )._machine._attempts.plan  # nothing is sent before it is read
    return plan.url, plan.route.key


@pytest.mark.proves("AI-2-providers")
@pytest.mark.parametrize(
    ("variable", "model", "host"),
    [
        ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5", "https://api.anthropic.com/v1/"),
        ("GEMINI_API_KEY", "gemini/gemini-2.5-flash", "https://generativelanguage.googleapis.com/"),
        ("MISTRAL_API_KEY", "mistral/mistral-large", "https://api.mistral.ai/v1/"),
        ("OPENROUTER_API_KEY", "openrouter/auto", "https://openrouter.ai/api/v1/"),
    ],
)
def test_a_providers_own_key(
    variable: str, model: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "sk-own")
    url, key = sent_to(AsyncLLMClient.from_env(), model)
    assert url.startswith(host)
    assert key == "sk-own"


AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret-of-aws",
    "AWS_DEFAULT_REGION": "eu-central-1",
}
FRANKFURT = "https://bedrock-runtime.eu-central-1.amazonaws.com/model/m/converse-stream"
GOOGLE = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.token"}
VERTEX = "aiplatform.googleapis.com/v1/projects/p/locations/"


@pytest.mark.parametrize("place", ["environment", ".env"])
@pytest.mark.parametrize(
    ("values", "model", "url", "key"),
    [
        (
            *(AWS, "bedrock/m", FRANKFURT),
            AWSCredentials("AKIDEXAMPLE", "secret-of-aws", region="eu-central-1"),
        ),
        (
            {**AWS, "AWS_SESSION_TOKEN": "t", "AWS_REGION": "eu-central-1"},
            *("bedrock/m", FRANKFURT),
            AWSCredentials("AKIDEXAMPLE", "secret-of-aws", "t", "eu-central-1"),
        ),
        ({**AWS, "AWS_BEARER_TOKEN_BEDROCK": "ABSK"}, "bedrock/m", FRANKFURT, "ABSK"),
        (
            *(GOOGLE, "vertex/gemini-2.5-pro"),
            f"https://{VERTEX}global/publishers/google/models/gemini-2.5-pro",
            "ya29.token",
        ),
        (
            *({**GOOGLE, "GOOGLE_CLOUD_LOCATION": "us-east1"}, "vertex/gemini-2.5-pro"),
            f"https://us-east1-{VERTEX}us-east1/publishers/google/models/gemini-2.5-pro",
            "ya29.token",
        ),
        (
            {
                "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/",
                "AZURE_OPENAI_API_KEY": "azure-key",
            },
            *("azure/my-deployment", "https://mine.openai.azure.com/openai/v1/chat/completions"),
            "azure-key",
        ),
    ],
)
def test_the_variables_of_the_clouds(
    values: dict[str, str],
    model: str,
    url: str,
    key: object,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if place == ".env":
        write_env(**values)
    else:
        for name, value in values.items():
            monkeypatch.setenv(name, value)
    found, used = sent_to(AsyncLLMClient.from_env(), model)
    assert found.partition(":streamGenerateContent")[0] == url
    assert used == key
    assert "secret-of-aws" not in repr(read_settings())


@pytest.mark.parametrize(
    ("values", "model", "message"),
    [
        (
            *({"AWS_REGION": "us-east-1"}, "bedrock/m"),
            "set AWS_BEARER_TOKEN_BEDROCK or the variables of AWS credentials, or set LLM_API",
        ),
        ({"AWS_BEARER_TOKEN_BEDROCK": "ABSK"}, "bedrock/m", "set LLM_API_BASE_URL, or AWS_REGION"),
        ({"GOOGLE_OAUTH_ACCESS_TOKEN": "t"}, "vertex/m", "or GOOGLE_CLOUD_PROJECT and GOOGLE_CLOU"),
        ({"AZURE_OPENAI_API_KEY": "k"}, "azure/m", "or AZURE_OPENAI_ENDPOINT"),
        (
            {"AZURE_OPENAI_ENDPOINT": "mine", "AZURE_OPENAI_API_KEY": "k"},
            *("azure/m", "AZURE_OPENAI_ENDPOINT must"),
        ),
    ],
)
def test_a_missing_variable_of_a_cloud_is_named(
    values: dict[str, str], model: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LLMError, match=message):
        sent_to(AsyncLLMClient.from_env(), model)


def test_variables_of_clouds_that_are_not_used_may_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-some")
    for name in CLOUD_VARIABLES:
        monkeypatch.setenv(name, "not a value")
    assert sent_to(AsyncLLMClient.from_env(), "gpt-4o")[1] == "sk-some"


def test_variables_of_clouds_do_not_lead_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-some")
    monkeypatch.setenv("LLM_API_BASE_URL", "http://proxy:8080")
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    url, key = sent_to(AsyncLLMClient.from_env(), "bedrock/m")
    assert (url, key) == ("http://proxy:8080/model/m/converse-stream", "sk-some")


def test_no_key_goes_to_another_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-of-openai")
    with pytest.raises(LLMAuthenticationError, match="ANTHROPIC_API_KEY") as caught:
        sent_to(AsyncLLMClient.from_env(), "anthropic/claude-sonnet-4-5")
    assert "sk-of-openai" not in str(caught.value)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-anthropic")
    client = AsyncLLMClient.from_env()
    assert sent_to(client, "anthropic/claude-sonnet-4-5")[1] == "sk-of-anthropic"
    assert sent_to(client, "gpt-4o")[1] == "sk-of-openai"


def test_ollama_needs_no_key() -> None:
    url, key = sent_to(AsyncLLMClient.from_env(), "ollama/llama3")
    assert url == "http://127.0.0.1:11434/api/chat"
    assert key is None


def test_a_wrong_key_of_a_provider_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-some")
    monkeypatch.setenv("GROQ_API_KEY", "two words")
    with pytest.raises(LLMRequestError, match="GROQ_API_KEY"):
        AsyncLLMClient.from_env()


@pytest.mark.proves("AI-2-providers")
@pytest.mark.parametrize(
    ("base_url", "model", "url"),
    [
        ("https://api.anthropic.com", "claude-3-opus", "https://api.anthropic.com/v1/messages"),
        ("http://localhost:11434", "llama3", "http://localhost:11434/api/chat"),
        ("http://localhost:11434/v1", "llama3", "http://localhost:11434/v1/chat/completions"),
        ("https://api.openai.com", "gpt-4o", "https://api.openai.com/v1/chat/completions"),
    ],
)
def test_the_base_url_chooses_the_provider(
    base_url: str, model: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-some")
    monkeypatch.setenv("LLM_API_BASE_URL", base_url)
    assert sent_to(AsyncLLMClient.from_env(), model) == (url, "sk-some")


@pytest.mark.proves("R26b")
def test_two_configurations_in_one_process() -> None:
    async def go() -> tuple[Provider, Provider]:
        async with (
            provider(ANSWER) as first,
            provider(ANSWER) as second,
            AsyncLLMClient("sk-1", first.url, "one") as one,
            AsyncLLMClient("sk-2", second.url, "two") as two,
        ):
            await asyncio.gather(*(client.generate(MESSAGES) for client in (one, two) * 5))
            return first, second

    for number, (served, model) in enumerate(zip(run(go()), ("one", "two"), strict=True), 1):
        assert len(served.received) == 5
        assert {sent.json["model"] for sent in served.received} == {model}
        assert {sent.headers["authorization"] for sent in served.received} == {
            f"Bearer sk-{number}"
        }


@pytest.mark.parametrize(
    "options",
    [
        *({"timeout": value} for value in (0, -1, True, float("nan"), "5")),
        *({"max_retries": value} for value in (-1, 1.5, True, None)),
        *({"max_concurrency": value} for value in (0, -1, 2.5, True)),
        *({"requests_per_minute": value} for value in (0, -1)),
        *({"tokens_per_minute": value} for value in (0, "many")),
        *({"first_wait": 0}, {"deadline": 0}, {"default_model": ""}, {"api_key": "a b"}),
        *({"base_url": "nowhere"}, {"provider": "nobody"}, {"keys": {"nobody": "k"}}),
        *({"base_urls": {"nobody": "https://a"}}, {"base_urls": {"azure": "nowhere"}}),
        *({"api_key": 7}, {"keys": {"bedrock": ["k"]}}),
        {"headers": {"X-A": "line\nend"}},
    ],
    ids=str,
)
def test_an_argument_that_cannot_work(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        AsyncLLMClient(**options)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"keys": "sk-1"}, "keys"),
        ({"keys": {"openai": 5}}, "keys['openai']"),
        ({"base_urls": "https://a.test"}, "base_urls"),
        ({"base_urls": {"openai": 5}}, "base_urls['openai']"),
    ],
)
def test_the_argument_that_is_wrong_is_named(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        AsyncLLMClient(**options)
    assert caught.value.argument == argument


@pytest.mark.proves("R33b")
def test_the_docs_say_that_the_default_model_is_deprecated() -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert "gpt-4-turbo" in page
    paragraphs = page.split("\n\n")
    assert [text for text in paragraphs if "default model" in text and "deprecated" in text]


@pytest.mark.proves("R27e")
def test_the_docs_tell_the_default_of_the_deadline() -> None:
    paragraphs = DOCS.read_text(encoding="utf-8").split("\n\n")
    assert [text for text in paragraphs if "deadline" in text and "default" in text]
