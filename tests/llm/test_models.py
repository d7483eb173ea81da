"""Lists of models through both clients and a real server: pages, retries and errors."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from coreason_client.llm import (
    AsyncLLMClient,
    LLMAuthenticationError,
    LLMClient,
    LLMError,
    LLMNotFoundError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
    ModelInfo,
)
from tests.llm.server import Provider, Received, Replied, ServerInThread

KEY = "sk-of-the-lists"


def told(value: Any, status: int = 200) -> Replied:
    return Replied(status, body=json.dumps(value).encode())


def listed(*ids: str, **more: Any) -> Replied:
    return told({"data": [{"id": id_} for id_ in ids], **more})


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with ServerInThread() as server:
        yield server


@pytest.fixture
def server(provider: Provider) -> Provider:
    provider.received.clear()
    provider.reply = lambda _: listed("a", "b")
    return provider


def in_sync(server: Provider, asked: Any, **client: Any) -> list[ModelInfo]:
    with LLMClient(KEY, server.url, first_wait=0.001, **client) as ours:
        return ours.models(*asked)


def in_async(server: Provider, asked: Any, **client: Any) -> list[ModelInfo]:
    async def go() -> list[ModelInfo]:
        async with AsyncLLMClient(KEY, server.url, first_wait=0.001, **client) as ours:
            return await ours.models(*asked)

    return asyncio.run(asyncio.wait_for(go(), 20))


@pytest.fixture(params=[in_sync, in_async], ids=["sync", "async"])
def models(request: pytest.FixtureRequest, server: Provider) -> Any:
    return lambda *asked, **client: request.param(server, asked, **client)


def test_the_models_of_the_default_model_s_provider(models: Any, server: Provider) -> None:
    assert models() == [
        {"id": "a", "provider": "openai-compatible"},
        {"id": "b", "provider": "openai-compatible"},
    ]
    [sent] = server.received
    assert (sent.method, sent.path, sent.body) == ("GET", "/v1/models", b"")
    assert sent.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("named", "path", "header"),
    [
        ("mistral", "/v1/models", "authorization"),
        ("anthropic", "/v1/models?limit=1000", "x-api-key"),
        ("groq", "/openai/v1/models", "authorization"),
    ],
)
def test_the_models_of_a_named_provider(
    models: Any, server: Provider, named: str, path: str, header: str
) -> None:
    assert [model["provider"] for model in models(named)] == [named] * 2
    [sent] = server.received
    assert sent.path == path
    assert KEY in sent.headers[header]


def test_all_pages_are_read_and_each_is_retried(models: Any, server: Provider) -> None:
    failures = [told({"error": {"message": "busy", "type": "overloaded_error"}}, 529)]

    def page(received: Received) -> Replied:
        after = parse_qs(urlsplit(received.path).query).get("after_id", ["0"])[0]
        if after == "1" and failures:
            return failures.pop()
        number = int(after) + 1
        return listed(str(number), has_more=number < 3, last_id=str(number))

    server.reply = page
    assert [model["id"] for model in models("anthropic")] == ["1", "2", "3"]
    assert len(server.received) == 4


def test_a_cursor_that_repeats_itself_ends_the_list(models: Any, server: Provider) -> None:
    server.reply = lambda _: told({"models": [{"name": "models/m"}], "nextPageToken": "again"})
    assert [model["id"] for model in models("gemini")] == ["m", "m"]
    assert len(server.received) == 2


def test_a_list_without_an_end_is_bounded(models: Any, server: Provider) -> None:
    def page(received: Received) -> Replied:
        return told({"models": [], "nextPageToken": str(len(server.received))})

    server.reply = page
    assert models("gemini") == []
    assert len(server.received) == 100


@pytest.mark.parametrize(
    ("reply", "kind", "attempts"),
    [
        (
            told({"error": {"code": "invalid_api_key", "message": KEY}}, 401),
            LLMAuthenticationError,
            1,
        ),
        (told({}, 404), LLMNotFoundError, 1),
        (told({}, 500), LLMServerError, 2),
        (told({}), LLMResponseError, 1),
        (Replied(body=b"<html>"), LLMResponseError, 2),
    ],
)
def test_the_error_of_a_provider(
    models: Any, server: Provider, reply: Replied, kind: type[LLMError], attempts: int
) -> None:
    server.reply = lambda _: reply
    with pytest.raises(kind) as caught:
        models(max_retries=1)
    assert caught.value.attempts == len(server.received) == attempts
    assert KEY not in f"{caught.value} {caught.value.body}"


def test_a_provider_without_a_list(models: Any, server: Provider) -> None:
    with pytest.raises(LLMRequestError, match="vertex has no list of models that this client can"):
        models("vertex")
    assert server.received == []


def test_a_provider_that_does_not_exist(models: Any, server: Provider) -> None:
    with pytest.raises(LLMRequestError, match="provider must be one of openai, ") as caught:
        models("nobody")
    assert caught.value.argument_error is not None
    assert server.received == []


def test_the_models_of_another_provider_than_that_of_the_base_url() -> None:
    with (
        LLMClient(KEY, "https://api.groq.com") as ours,
        pytest.raises(LLMRequestError, match="the base URL belongs to groq: create a client for"),
    ):
        ours.models("openai")
