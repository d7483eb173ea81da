"""A counterpart that others wrote: aimock, a mock of the providers from npm, on loopback.

It is installed once into the cache of the user. Without node, npm or their registry these tests
are skipped, and say why.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.request import Request, urlopen

import pytest

from coreason_client._retry import Backoff
from coreason_client.llm import (
    AsyncLLMClient,
    AsyncLLMStream,
    Finish,
    LLMAuthenticationError,
    LLMConnectionError,
    LLMError,
    LLMRateLimitError,
    LLMResponseError,
    LLMServerError,
    TextDelta,
    UsageDelta,
)

VERSION = "1.43.0"
INSTALL_SECONDS = 40.0  # less than a test may take, so that the reason is told
START_SECONDS = 15.0
KEY = "sk-of-the-mock"
GREETING = "Hello! This answer is long enough for some chunks, and it ends with an é."
RESPONSES = "openai/computer-use-preview"  # only in the Responses API, and it does not reason
MODELS = [
    "gpt-4o",
    "anthropic/claude-sonnet-4-5",
    "gemini/gemini-2.5-flash",
    "ollama/llama3",
    RESPONSES,
    "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
FIXTURES: Mapping[str, Any] = {
    "fixtures": [
        {"match": {"userMessage": "greet"}, "response": {"content": GREETING}},
        {
            "match": {"userMessage": "weather"},
            "response": {"toolCalls": [{"name": "get_weather", "arguments": '{"city": "Paris"}'}]},
        },
        {
            "match": {"userMessage": "broken"},
            "response": {"content": GREETING},
            "truncateAfterChunks": 6,
            "latency": 30,
        },
    ]
}


@pytest.fixture(scope="session")
def installed() -> Path:
    """The folder of the package; the test is skipped where it cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed, so there is no aimock to talk to")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "coreason-client")
    home = cache / f"aimock-{VERSION}"
    package = home / "node_modules" / "@copilotkit" / "aimock"
    if not package.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as folder:
            _install(npm, Path(folder, "new"))
            try:
                Path(folder, "new").rename(home)
            except OSError:  # another process was faster
                assert package.is_dir()
    return package


def _install(npm: str, folder: Path) -> None:
    folder.mkdir()
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-save", "--fetch-retries=0"]
    package = f"@copilotkit/aimock@{VERSION}"
    command = [npm, "install", *options, "--prefix", str(folder), package]
    said = folder.with_name("said")  # a file: a child of npm could keep a pipe open
    try:
        with said.open("wb") as errors:
            code = subprocess.run(
                command,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=INSTALL_SECONDS,
                cwd=folder,
            ).returncode
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install aimock {VERSION} within {INSTALL_SECONDS:g} s")
    if code:
        words = " ".join(said.read_text(encoding="utf-8", errors="replace").split())
        pytest.skip(f"npm cannot install aimock {VERSION}: {words[:300]}")


@pytest.fixture(scope="session")
def mock(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running aimock."""
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES), encoding="utf-8")
    options = ["--port", "0", "--fixtures", str(fixtures), "--chunk-size", "8"]
    command = ["node", str(installed / "dist" / "cli.js"), *options]
    environment = {**os.environ, "AIMOCK_API_KEYS": KEY}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        late = Timer(START_SECONDS, process.kill)
        late.start()
        try:
            address = _address(process)
            late.cancel()
            yield address
        finally:
            late.cancel()
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if found := re.search(r"listening on (http://\S+)", line):
            return found[1]
    raise AssertionError(f"aimock did not start: {''.join(said)}")


def client(
    mock: str, *, key: str = KEY, test: str = "plain", max_retries: int = 2
) -> AsyncLLMClient:
    return AsyncLLMClient(
        *(key, mock),
        timeout=10,
        max_retries=max_retries,
        first_wait=0.01,
        headers={"X-Test-Id": test},
    )


def asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, 20))


async def read(stream: AsyncLLMStream) -> tuple[list[Any], Any]:
    async with stream:
        deltas = [delta async for delta in stream]
        return deltas, await stream.result()


@pytest.mark.proves("AI-1-gateway", "AI-5-same-shape", "AI-2-providers", "AI-5-tool-calls-empty")
@pytest.mark.parametrize("model", MODELS)
def test_text(mock: str, model: str) -> None:
    async def go() -> None:
        async with client(mock) as ours:
            whole = await ours.generate(asked("greet"), model)
            deltas, streamed = await read(ours.stream(asked("greet"), model))
        wanted = {"content": GREETING, "tool_calls": [], "finish_reason": "stop"}
        assert whole["data"] == streamed["data"] == wanted
        assert list(whole) == list(streamed)
        assert list(whole)[:3] == ["status", "data", "usage"]
        pieces = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
        assert "".join(pieces) == GREETING
        assert len(pieces) > 1
        assert isinstance(deltas[-2], UsageDelta)
        assert deltas[-1] == Finish("stop")

    run(go())


@pytest.mark.parametrize("fetched", [True, False], ids=["token of a callable", "token"])
def test_vertex_in_a_project(mock: str, *, fetched: bool) -> None:
    async def token() -> str:
        return KEY

    async def go() -> None:
        base = f"{mock}/v1/projects/p/locations/global"
        async with AsyncLLMClient(token if fetched else KEY, base, "vertex/gemini-2.5-pro") as ours:
            whole = await ours.generate(asked("greet"))
            _, streamed = await read(ours.stream(asked("greet")))
        assert whole["data"]["content"] == streamed["data"]["content"] == GREETING
        assert whole["provider"] == "vertex"

    run(go())


@pytest.mark.proves("AI-3-tools", "AI-5-content-null", "R30b")
@pytest.mark.parametrize("model", MODELS)
def test_a_tool_call_and_its_result(mock: str, model: str) -> None:
    async def go() -> None:
        async with client(mock) as ours:
            whole = await ours.generate(asked("weather"), model, [WEATHER])
            _, streamed = await read(ours.stream(asked("weather"), model, [WEATHER]))
            for response in (whole, streamed):
                [call] = response["data"]["tool_calls"]
                assert call["id"]
                assert (call["name"], call["arguments"]) == ("get_weather", {"city": "Paris"})
                assert response["data"]["content"] is None
                assert response["data"]["finish_reason"] == "tool_calls"
            [call] = whole["data"]["tool_calls"]
            history = [
                *asked("weather"),
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": "sunny"},
                *asked("greet"),
            ]
            after = await ours.generate(history, model, [WEATHER])
            assert after["data"]["content"] == GREETING

    run(go())


def test_reasoning_is_carried_to_the_next_turn(mock: str) -> None:
    """In the Responses API, with a model that reasons: encrypted, in a message as documented."""
    model = "openai/gpt-5-pro"

    async def go() -> None:
        async with client(mock) as ours:
            whole = await ours.generate(asked("weather"), model, [WEATHER])
            _, streamed = await read(ours.stream(asked("weather"), model, [WEATHER]))
            for response in (whole, streamed):
                thought, call = response["data"]["provider_items"]["openai"]
                assert (thought["type"], call["type"]) == ("reasoning", "function_call")
                assert thought["encrypted_content"]
                [made] = response["data"]["tool_calls"]
                assert made["id"] == call["call_id"]
                history = [
                    *asked("weather"),
                    {"role": "assistant", **response["data"]},
                    {"role": "tool", "tool_call_id": made["id"], "content": "sunny"},
                    *asked("greet"),
                ]
                after = await ours.generate(history, model, [WEATHER])
                assert after["data"]["content"] == GREETING

    run(go())


@pytest.mark.proves("AI-6B-401", "R29a")
@pytest.mark.parametrize("model", MODELS)
def test_a_bad_key(mock: str, model: str) -> None:
    async def go() -> None:
        async with client(mock, key="sk-another") as ours:
            with pytest.raises(LLMAuthenticationError) as caught:
                await ours.generate(asked("greet"), model)
        assert caught.value.attempts == 1
        assert caught.value.status == 401

    run(go())


@pytest.mark.parametrize("model", MODELS)
def test_a_stream_that_breaks(mock: str, model: str) -> None:
    async def go() -> None:
        async with client(mock) as ours:
            with pytest.raises(LLMConnectionError) as caught:
                await read(ours.stream(asked("broken"), model))
        partial = caught.value.partial
        assert partial is not None
        assert partial["data"]["content"]
        assert GREETING.startswith(partial["data"]["content"])
        assert caught.value.attempts == 1

    run(go())


def chaos(mock: str, test: str, rates: Mapping[str, float]) -> None:
    """Set the chaos of one test; others that run beside it see nothing of it."""
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {KEY}",
        "X-Test-Id": test,
    }
    body = json.dumps(rates).encode()
    with urlopen(Request(f"{mock}/__aimock/chaos", body, headers), timeout=10) as answer:
        assert answer.status == 200


@pytest.mark.proves("AI-6B-5xx", "R27c")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("rate", "kind", "stream_kinds"),
    [
        ("dropRate", LLMServerError, (LLMServerError,)),
        # Rubbish where a stream was wanted is not an answer, or a stream that ends without one.
        ("malformedRate", LLMResponseError, (LLMResponseError, LLMConnectionError)),
        ("disconnectRate", LLMConnectionError, (LLMConnectionError,)),
    ],
)
def test_chaos(
    mock: str,
    model: str,
    rate: str,
    kind: type[LLMError],
    stream_kinds: tuple[type[LLMError], ...],
) -> None:
    test = f"{model} {rate}"
    chaos(mock, test, {rate: 1})

    async def go() -> None:
        async with client(mock, test=test) as ours:
            with pytest.raises(kind) as whole:
                await ours.generate(asked("greet"), model)
            with pytest.raises(stream_kinds) as streamed:
                await read(ours.stream(asked("greet"), model))
        assert whole.value.attempts == streamed.value.attempts == 3
        assert streamed.value.partial is None

    run(go())


@pytest.mark.proves("R27b", "AI-6B-429")
@pytest.mark.parametrize("model", MODELS)
def test_a_rate_limit_says_for_how_long(mock: str, model: str) -> None:
    chaos(mock, f"{model} limit", {"rateLimitRate": 1})

    async def go() -> None:
        async with client(mock, test=f"{model} limit", max_retries=0) as ours:
            with pytest.raises(LLMRateLimitError) as caught:
                await ours.generate(asked("greet"), model)
        assert caught.value.retry_after == 1.0

    run(go())


@pytest.mark.parametrize("model", MODELS)
def test_half_of_all_requests_fail(mock: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # One request in a thousand fails ten times, and would then wait for seconds.
    monkeypatch.setattr("coreason_client.llm._client_core.BACKOFF", Backoff(longest=0.1))
    rates = {"dropRate": 0.2, "malformedRate": 0.15, "disconnectRate": 0.15}
    chaos(mock, f"{model} half", rates)

    async def go() -> None:
        async with client(mock, test=f"{model} half", max_retries=30) as ours:
            calls = [ours.generate(asked("greet"), model) for _ in range(20)]
            answers = await asyncio.gather(*calls)
        assert [answer["data"]["content"] for answer in answers] == [GREETING] * 20

    run(go())
