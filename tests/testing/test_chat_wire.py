from collections.abc import Callable
from typing import Any

import pytest

from coreason_client.testing import FakeModel, ModelFailure, ModelTurn, fake_model
from tests.each import each
from tests.testing.wires import CHECKS, TURN

PROVIDERS = ("openai", "azure", "mistral")


@pytest.mark.parametrize("provider", PROVIDERS)
@each("check", CHECKS)
def test_our_client_reads_what_the_fake_model_sends(
    provider: str, check: Callable[[str], None]
) -> None:
    check(provider)


def library() -> Any:
    """Return the library of OpenAI, whose import takes a second."""
    return pytest.importorskip("openai")


def client_of(model: FakeModel, retries: int = 0) -> Any:
    return library().OpenAI(base_url=f"{model.url}/v1", api_key="sk-any", max_retries=retries)


def test_the_library_of_openai_reads_it_too() -> None:
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
    options = {"stream_options": {"include_usage": True}}
    turns: list[Any] = [
        TURN,
        TURN,
        ModelFailure(429, retry_after=0.001),
        "Now",
        ModelTurn("a b", end_after=1),
    ]
    with fake_model(turns, require_all=True) as model, client_of(model, 3) as client:
        whole = client.chat.completions.create(**asked)
        with client.chat.completions.stream(**asked, **options) as stream:
            for _ in stream:
                pass
            streamed = stream.get_final_completion()
        assert client.chat.completions.create(**asked).choices[0].message.content == "Now"
        chunks = [*client.chat.completions.create(**asked, stream=True)]
    for answer in (whole, streamed):
        [choice] = answer.choices
        assert choice.message.content == "Let me see. é😀"
        functions = [call.function for call in choice.message.tool_calls]
        assert [one.arguments for one in functions] == ['{"city": "Köln"}', '{"city": "Bonn"}']
        assert choice.finish_reason == "tool_calls"
        assert answer.usage.total_tokens == 27
    # It takes half an answer for a whole one.
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "a "


def test_usage_is_sent_as_the_client_asks_for_it() -> None:
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    with fake_model("Hi", exhausted="repeat") as model, client_of(model) as client:
        plain = [*client.chat.completions.create(**asked)]
        extra = [*client.chat.completions.create(**asked, stream_options={"include_usage": True})]
    assert [bool(chunk.choices) for chunk in plain] == [True, True, True]
    assert [bool(chunk.choices) for chunk in extra] == [True, True, True, False]
    assert extra[-1].usage.prompt_tokens == 10


def test_the_older_paths_of_azure_name_the_model() -> None:
    with fake_model("Hi") as model:
        client = library().AzureOpenAI(
            azure_endpoint=model.url, api_key="any", api_version="2024-06-01"
        )
        with client:
            client.chat.completions.create(
                model="my-deployment", messages=[{"role": "user", "content": "Hi"}]
            )
    assert model.requests[0].path == "/openai/deployments/my-deployment/chat/completions"
    assert model.requests[0].model == "my-deployment"
