"""Keys: text, AWS credentials and callables."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.llm import AsyncLLMClient, AWSCredentials, LLMClient, LLMError
from coreason_client.llm._plan import CallPlan
from coreason_client.llm.credentials import check_key_like, check_region

SECRETS = ("wJalrXUtnFEMI", "session-token-value")


def test_secrets_of_aws_are_not_shown() -> None:
    credentials = AWSCredentials("AKIDEXAMPLE", *SECRETS, "eu-west-1")
    shown = repr(credentials)
    assert shown == "AWSCredentials(access_key='AKIDEXAMPLE', region='eu-west-1')"
    for client in (LLMClient(credentials), AsyncLLMClient(keys={"bedrock": credentials})):
        assert not [secret for secret in SECRETS if secret in repr(client._target)]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("", "s"), "access_key"),
        (("a", ""), "secret_key"),
        (("a", "with space"), "secret_key"),
        (("a", 7), "secret_key"),
        (("a", "s", "line\n"), "session_token"),
        (("a", "s", None, "Frankfurt"), "region"),
        (("a", "s", None, "x.evil.example/"), "region"),
        (("a", "s", None, ""), "region"),
    ],
)
def test_credentials_that_cannot_be_sent(arguments: tuple[Any, ...], name: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} must") as caught:
        AWSCredentials(*arguments)
    assert "with space" not in str(caught.value)


def test_a_key_is_text_credentials_or_a_callable() -> None:
    credentials = AWSCredentials("a", "s")
    for key in ("sk", credentials, lambda: "sk"):
        assert check_key_like(key) is key
    for wrong in ("", "a b", 7, None, ["sk"]):
        with pytest.raises(ArgumentError, match=r"^api_key must"):
            check_key_like(wrong)


def test_a_region() -> None:
    assert check_region("us-gov-west-1") == "us-gov-west-1"
    with pytest.raises(ArgumentError, match=r"^AWS_REGION must be an AWS region .*, got 'A'$"):
        check_region("A", "AWS_REGION")


# The examples of the documents.

PAGE = Path(__file__).parents[2] / "docs" / "llm-providers.md"
CLOUDS = PAGE.read_text().partition("## Bedrock, Vertex and Azure")[2].partition("\n## ")[0]
EXAMPLES = re.findall(r"```python\n(.*?)```", CLOUDS, re.DOTALL)
FRANKFURT = "https://bedrock-runtime.eu-central-1.amazonaws.com"
VERTEX = "https://aiplatform.googleapis.com/v1/projects/my-project/locations/global"
GOOGLE = SimpleNamespace(valid=False, refresh=lambda _: None, token="ya29.token")
MODULES: dict[str, dict[str, Any]] = {
    "google": {},
    "google.auth": {"default": lambda _: (GOOGLE, "my-project")},
    "google.auth.transport": {},
    "google.auth.transport.requests": {"Request": object},
    "azure": {},
    "azure.identity": {
        "DefaultAzureCredential": object,
        "get_bearer_token_provider": lambda _, scope: lambda: f"token-for-{scope}",
    },
}


@pytest.mark.parametrize(
    ("example", "url", "key"),
    [
        (
            EXAMPLES[0],
            f"{FRANKFURT}/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
            AWSCredentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI", region="eu-central-1"),
        ),
        (
            EXAMPLES[1],
            f"{VERTEX}/publishers/google/models/gemini-2.5-pro:generateContent",
            "ya29.token",
        ),
        (
            EXAMPLES[2],
            "https://mine.openai.azure.com/openai/v1/chat/completions",
            "token-for-https://cognitiveservices.azure.com/.default",
        ),
    ],
    ids=["Bedrock", "Vertex", "Azure"],
)
def test_the_examples_of_the_documents(
    example: str, url: str, key: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each example runs up to its first request."""
    for name, contents in MODULES.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
        package, _, last = name.rpartition(".")
        if package:
            setattr(sys.modules[package], last, module)
    plans: list[CallPlan] = []

    def stop(plan: CallPlan) -> None:
        plans.append(plan)
        raise LLMError("stopped by the test")

    monkeypatch.setattr(CallPlan, "headers", stop)
    names: dict[str, Any] = {}
    with pytest.raises(LLMError, match="stopped by the test"):
        exec(compile(example, "docs/llm-providers.md", "exec"), names)
    [plan] = plans
    assert (plan.url, plan.route.key) == (url, key)
