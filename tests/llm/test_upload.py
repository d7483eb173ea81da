"""Files and token counts, through both clients, the fake model and wire tables."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coreason_client.llm import (
    AsyncLLMClient,
    LLMClient,
    LLMNotFoundError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    Router,
    count_tokens,
    count_tokens_sync,
)
from coreason_client.llm.router.deployments import Deployment
from coreason_client.testing import fake_model, virtual_clock
from tests.llm.server import Provider, Received, Replied, ServerInThread

PROVIDERS = ("openai", "anthropic", "gemini")
PDF = b"%PDF-1.7 content"
ASK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind"},
    {"role": "user", "content": "How are you?"},
]
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
]


def told(value: Any, status: int = 200, headers: Mapping[str, str] = {}) -> Replied:
    return Replied(status, headers, json.dumps(value).encode())


def client_of(server: Provider, provider: str, **options: Any) -> LLMClient:
    return LLMClient("k", server.url, provider=provider, first_wait=0.001, **options)


# Files.


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_is_stored_used_in_a_message_and_deleted(provider: str, tmp_path: Path) -> None:
    path = tmp_path / 'a"b.pdf'
    path.write_bytes(PDF)
    with fake_model("It is a test.") as fake, LLMClient(**fake.options(provider)) as client:
        part = client.upload(path)
        assert part["type"] == "file"
        question = {"type": "text", "text": "What is it?"}
        client.generate([{"role": "user", "content": [question, part]}])
        [request] = fake.requests
        id_ = part["file"]["file_id"]
        sent = json.dumps(request.json)
        assert id_ in sent
        expected = {
            "openai": {"type": "file", "file": {"file_id": id_}},
            "anthropic": {
                "type": "document",
                "source": {"type": "file", "file_id": id_},
                "title": 'a"b.pdf',
            },
            "gemini": {"fileData": {"mimeType": "application/pdf", "fileUri": id_}},
        }[provider]
        assert json.dumps(expected) in sent
        beta = request.headers.get("anthropic-beta")
        assert beta == ("files-api-2025-04-14" if provider == "anthropic" else None)
        client.delete_file(part)
        assert _stored(fake) == {}


def _stored(fake: Any) -> dict[str, Any]:
    files: dict[str, Any] = fake._batches._files
    return files


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_async_client_uploads_bytes_and_images(provider: str) -> None:
    async def go() -> None:
        with fake_model("A dot.") as fake:
            options = {**fake.options(provider), "headers": {"anthropic-beta": "other-1"}}
            async with AsyncLLMClient(**options) as client:
                part = await client.upload(b"\x89PNG", filename="dot.png")
                [file] = _stored(fake).values()
                assert (file.data, file.media_type) == (b"\x89PNG", "image/png")
                if provider == "anthropic":
                    await client.generate([{"role": "user", "content": [part]}])
                    [request] = fake.requests
                    [block] = request.json["messages"][0]["content"]
                    assert block["type"] == "image"
                    betas = "other-1,files-api-2025-04-14"
                    assert request.headers["anthropic-beta"] == betas

    asyncio.run(asyncio.wait_for(go(), 30))


def test_gemini_is_asked_until_the_file_is_active() -> None:
    states = ["PROCESSING", "PROCESSING", "ACTIVE"]

    def reply(request: Received) -> Replied:
        if request.path.startswith("/upload/") and not request.path.endswith("?id=1"):
            return told({}, headers={"X-Goog-Upload-URL": f"{server.url}/upload/v1beta/files?id=1"})
        state = states.pop(0)
        file = {"name": "files/a", "uri": f"{server.url}/v1beta/files/a", "state": state}
        return told({"file": file} if request.method == "POST" else file)

    with (
        ServerInThread() as server,
        client_of(server, "gemini") as client,
        virtual_clock() as clock,
    ):
        server.reply = reply
        part = client.upload(b"film", filename="a.mp4")
        assert part["file"]["file_id"].endswith("/v1beta/files/a")
        start, sent, *polls = server.received
        assert start.headers["x-goog-upload-header-content-type"] == "video/mp4"
        assert sent.body == b"film"
        assert [poll.path for poll in polls] == ["/v1beta/files/a"] * 2
        assert len([wait for wait in clock.waits if wait > 0]) == 2


@pytest.mark.parametrize(
    ("headers", "file", "reason"),
    [
        ({"X-Goog-Upload-URL": "https://elsewhere.example/x"}, {}, "belongs to another host"),
        ({"X-Goog-Upload-URL": "http://[::1"}, {}, "belongs to another host"),
        ({}, {}, "upload URL is missing"),
        ({"X-Goog-Upload-URL": "SELF"}, {"state": "FAILED", "uri": "u"}, "its state is FAILED"),
        (
            {"X-Goog-Upload-URL": "SELF"},
            {"state": "FAILED", "uri": "u", "error": {"message": "no\nvideo"}},
            "cannot use file 'a.mp4': no video",
        ),
    ],
)
def test_an_upload_of_gemini_that_fails(
    headers: dict[str, str], file: dict[str, Any], reason: str
) -> None:
    with ServerInThread() as server, client_of(server, "gemini", max_retries=0) as client:
        own = {name: value.replace("SELF", server.url) for name, value in headers.items()}
        server.reply = lambda _: told({"file": file}, headers=own)
        with pytest.raises((LLMResponseError, LLMRequestError), match=reason):
            client.upload(b"film", filename="a.mp4")


@pytest.mark.parametrize(
    ("file", "filename", "reason"),
    [
        (7, None, "file must be a path, or bytes"),
        (b"x", None, "filename must be given with bytes"),
        (b"x", 7, "filename must be text"),
        (b"", "a.pdf", "file 'a.pdf' is empty"),
        ("/no/such/a.pdf", None, "file 'a.pdf' cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_sent(file: Any, filename: Any, reason: str) -> None:
    with LLMClient("k") as client, pytest.raises(LLMRequestError, match=reason):
        client.upload(file, "gpt-4o", filename=filename)


def test_other_providers_and_other_parts_are_refused() -> None:
    with (
        LLMClient("k", "http://127.0.0.1:9", provider="groq") as client,
        pytest.raises(LLMRequestError, match=r"groq stores no files .* openai, anthropic"),
    ):
        client.upload(b"x", filename="a.pdf")
    with ServerInThread(told({}, 404)) as server, client_of(server, "openai") as client:
        with pytest.raises(LLMRequestError, match="must be what `upload` returned"):
            client.delete_file({"type": "text", "text": "x"})
        with pytest.raises(LLMNotFoundError):
            client.delete_file({"type": "file", "file": {"file_id": "file?x"}})
        assert [one.path for one in server.received] == ["/v1/files/file%3Fx"]


# Token counts.


@pytest.mark.parametrize(
    ("provider", "wire"), [*((name, None) for name in PROVIDERS), ("openai", "responses")]
)
def test_the_provider_counts(provider: str, wire: Any) -> None:
    with fake_model([]) as fake, LLMClient(**fake.options(provider), wire=wire) as client:
        count = client.count_tokens(ASK, "m", TOOLS)
        assert count == {"tokens": 5, "estimated": False}


@pytest.mark.parametrize(
    ("provider", "path", "fields"),
    [
        ("openai", "/v1/responses/input_tokens", {"model", "input", "tools"}),
        ("anthropic", "/v1/messages/count_tokens", {"model", "messages", "system", "tools"}),
        ("gemini", "/v1beta/models/m:countTokens", {"generateContentRequest"}),
    ],
)
def test_the_request_of_a_count_has_only_the_prompt(
    provider: str, path: str, fields: set[str]
) -> None:
    with ServerInThread(told({}, 429), told({"input_tokens": 0})) as server:
        with client_of(server, provider, requests_per_minute=0.001) as client:
            assert client.count_tokens(ASK, "m", TOOLS)["tokens"] == 0  # retried, and not limited
        request = server.received[-1]
    assert request.path == path
    sent = request.json
    if provider == "openai":
        assert sent.keys() - {"instructions"} == fields
    else:
        assert sent.keys() == fields
    if provider == "gemini":
        assert sent["generateContentRequest"]["model"] == "models/m"


def test_an_estimate_is_marked_and_sends_nothing() -> None:
    with LLMClient("k", "http://127.0.0.1:9", provider="groq") as client:
        short, with_tools = client.count_tokens(ASK), client.count_tokens(ASK, tools=TOOLS)
    assert short["estimated"]
    assert 0 < short["tokens"] < with_tools["tokens"]


def test_a_count_that_fails_is_an_error_and_not_an_estimate() -> None:
    with ServerInThread() as server, client_of(server, "anthropic", max_retries=0) as client:
        server.reply = lambda _: told({}, 429)
        with pytest.raises(LLMRateLimitError):
            client.count_tokens(ASK)
        server.reply = lambda _: told({"tokens": "many"})
        with pytest.raises(LLMResponseError, match="no number of tokens"):
            client.count_tokens(ASK)
        with pytest.raises(LLMRequestError, match="messages"):
            client.count_tokens([])
        with pytest.raises(LLMRequestError, match="model must be"):
            client.count_tokens(ASK, "")


def test_a_name_of_the_router_is_refused() -> None:
    router = Router({"fast": [Deployment("gpt-4o")]})
    with (
        LLMClient("k", router=router) as client,
        pytest.raises(LLMRequestError, match="'fast' is a name of the router"),
    ):
        client.count_tokens(ASK, "fast")


def test_the_functions_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_model([]) as fake:
        for name, value in fake.environment("anthropic").items():
            monkeypatch.setenv(name, value)
        assert count_tokens_sync(ASK)["tokens"] == 5
        found = asyncio.run(asyncio.wait_for(count_tokens(ASK), 30))
        assert found == {"tokens": 5, "estimated": False}
