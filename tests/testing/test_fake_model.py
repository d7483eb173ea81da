import asyncio
import socket
import threading
from contextlib import ExitStack
from statistics import median
from typing import Any
from urllib.request import urlopen

import pytest

from coreason_client import (
    ArgumentError,
    AsyncLLMClient,
    LLMClient,
    LLMConnectionError,
    LLMRequestError,
    LLMServerError,
    LLMTimeoutError,
    generate,
    generate_sync,
)
from coreason_client.llm.providers.profiles import PROFILES
from coreason_client.testing import (
    ChaosProxy,
    FakeModel,
    ModelFailure,
    ModelRequest,
    ModelToolCall,
    ModelTurn,
    fake_model,
)

ASK: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]


def client_of(model: FakeModel, provider: str = "openai", **options: Any) -> LLMClient:
    return LLMClient(**model.options(provider), **{"max_retries": 0, **options})


@pytest.mark.proves("KIT-model-turns")
def test_a_request_without_a_turn_fails_in_the_program_and_in_the_test() -> None:
    with (
        pytest.raises(AssertionError, match="no turn for request 2: it was given 1"),
        fake_model("Hello") as model,
        client_of(model) as client,
    ):
        assert client.generate(ASK)["data"]["content"] == "Hello"
        with pytest.raises(LLMRequestError, match="no turn for request 2: it was given 1"):
            client.generate(ASK)


def test_the_error_of_the_block_is_not_replaced() -> None:
    with (
        pytest.raises(LLMRequestError) as caught,
        fake_model([]) as model,
        client_of(model) as client,
    ):
        client.generate(ASK)
    assert caught.value.__notes__ == ["the fake model has no turn for request 1: it was given 0"]


def test_a_test_can_allow_more_requests_or_repeat_the_last_turn() -> None:
    refused = pytest.raises(LLMRequestError, match="no turn")
    with fake_model([], exhausted="allow") as model, client_of(model) as client, refused:
        client.generate(ASK)
    with fake_model(["A", "B"], exhausted="repeat") as model, client_of(model) as client:
        assert [client.generate(ASK)["data"]["content"] for _ in "123"] == ["A", "B", "B"]
    assert len(model.requests) == 3


def test_turns_that_are_left_can_be_an_error() -> None:
    left = pytest.raises(AssertionError, match="2 of 2 turns were not used")
    with left, fake_model(["A", "B"], require_all=True):
        pass
    with fake_model(["A", "B"]):
        pass


def test_a_turn_can_depend_on_the_request() -> None:
    def echo(request: ModelRequest) -> str:
        return f"{request.model}: {request.text}"

    with fake_model([echo, echo]) as model, client_of(model) as client:
        assert client.generate(ASK)["data"]["content"] == "fake-model: Hi"
        parts = [{"type": "text", "text": "two "}, {"type": "text", "text": "parts"}]
        answer = client.generate([{"role": "user", "content": parts}], "gpt-9")
    assert answer["data"]["content"] == "gpt-9: two parts"


def test_a_turn_that_fails_is_an_error_of_the_test() -> None:
    def fails(request: ModelRequest) -> str:
        raise KeyError("oops")

    with (
        pytest.raises(AssertionError, match="a request failed in the fake model: KeyError: 'oops'"),
        fake_model(fails) as model,
        client_of(model) as client,
        pytest.raises(LLMServerError, match="the test server failed: KeyError"),
    ):
        client.generate(ASK)


def test_an_unknown_path_is_an_error_of_the_test() -> None:
    unknown = pytest.raises(AssertionError, match="the fake model has no GET /v2/oops")
    with unknown, fake_model("A") as model:
        host, port = model.url.removeprefix("http://").split(":")
        with (
            socket.create_connection((host, int(port)), 10) as connection,
            connection.makefile("rb") as reply,
        ):
            connection.sendall(b"GET /v2/oops HTTP/1.1\r\nconnection: close\r\n\r\n")
            assert b" 404 " in reply.readline()


def test_a_representation_has_no_key() -> None:
    key = "sk-very-secret-indeed"
    with fake_model("A", exhausted="repeat") as model:
        for provider in ("openai", "azure", "anthropic", "gemini", "bedrock"):
            options = {**model.options(provider), "api_key": key}
            with LLMClient(**options) as client:
                client.generate(ASK)
        assert "1 of 1 turns used" in repr(model)
    for request in model.requests:
        assert key not in repr(request)
        assert key in "".join(request.headers.values())


def test_every_provider_has_options_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for profile in PROFILES:
        with fake_model(["A", "B"], require_all=True) as model:
            with client_of(model, profile.name) as client:
                assert client.generate(ASK)["data"]["content"] == "A"
            with monkeypatch.context() as environment:
                for name, value in model.environment(profile.name).items():
                    environment.setenv(name, value)
                with LLMClient.from_env() as client:
                    assert client.generate(ASK)["data"]["content"] == "B"
        wires = {request.wire for request in model.requests}
        assert len(wires) == 1, profile.name


def test_the_functions_and_other_libraries_use_the_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fake_model(["A", "B"]) as model:
        variables = model.environment()
        assert variables["OPENAI_BASE_URL"] == f"{model.url}/v1"
        assert model.environment("anthropic")["ANTHROPIC_BASE_URL"] == model.url
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert generate_sync(ASK)["data"]["content"] == "A"

        async def ask() -> Any:
            return await generate(ASK)

        assert asyncio.run(ask())["data"]["content"] == "B"


def test_async_with_serves_async_clients() -> None:
    async def use() -> list[str]:
        async with (
            fake_model(["Hello there", ModelTurn("Bye", stall_after=0)]) as model,
            AsyncLLMClient(**model.options()) as client,
            AsyncLLMClient(**model.options(), max_retries=0, timeout=0.1) as impatient,
        ):
            pieces = [piece async for piece in client.stream(ASK).text()]
            with pytest.raises(LLMTimeoutError):
                await impatient.generate(ASK)
            return pieces

    assert asyncio.run(use()) == ["Hello ", "there"]


def test_a_stall_ends_with_the_block_or_with_the_client() -> None:
    with fake_model(ModelTurn("a b", stall_after=1)) as model, client_of(model) as client:
        pieces = client.stream(ASK).text()
        assert next(pieces) == "a "
    assert not [t for t in threading.enumerate() if t.name == "coreason-fake-model"]


def test_answers_without_streaming_break_off_too() -> None:
    turns = [ModelTurn("abc", disconnect_after=0), ModelTurn("abc", end_after=1)]
    turns.append(ModelTurn("abc", failure=ModelFailure(400, "no")))
    with fake_model(turns) as model, client_of(model) as client:
        for _ in range(2):
            with pytest.raises(LLMConnectionError):
                client.generate(ASK)
        with pytest.raises(LLMRequestError, match="no"):
            client.generate(ASK)


def test_embeddings_and_lists_use_up_no_turn() -> None:
    names = ("openai", "gemini", "vertex", "ollama", "anthropic", "mistral", "bedrock")
    with fake_model([], models=["one", "two"]) as model:
        for name in names:
            with client_of(model, name) as client:
                if name != "vertex":
                    assert [found["id"] for found in client.models()] == ["one", "two"], name
                if name == "anthropic":
                    continue  # it has no embeddings
                embedder = "amazon.titan-embed-text-v2:0" if name == "bedrock" else "embedder"
                texts = ["a b"] if name in ("bedrock", "vertex") else ["a b", "c"]
                first = client.embed(texts, model=embedder, dimensions=40)["data"]["embeddings"]
                again = client.embed(["a b"], model=embedder, dimensions=40)["data"]["embeddings"]
                assert [len(vector) for vector in first] == [40] * len(texts), name
                assert first[0] == again[0]
    assert model.requests == []


def test_wrong_use_is_explained() -> None:
    model = fake_model("A")
    with pytest.raises(RuntimeError, match="only within `with fake_model"):
        _ = model.url
    with model:
        with pytest.raises(RuntimeError, match="runs already"):
            model.__enter__()
        with pytest.raises(ArgumentError, match="provider must be one of openai, azure"):
            model.options("opneai")
    model.__exit__(None, None, None)  # once more does nothing


def test_a_tool_run_needs_no_more_than_its_turns() -> None:
    def weather(city: str) -> str:
        """Returns the weather."""
        return f"sunny in {city}"

    turns: list[Any] = [ModelTurn("", ModelToolCall("weather", {"city": "Bonn"})), "It is sunny."]
    with fake_model(turns, require_all=True) as model, client_of(model, "anthropic") as client:
        result = client.run(ASK, tools=[weather])
    assert result.response["data"]["content"] == "It is sunny."
    assert model.requests[1].messages[-1]["content"] == "sunny in Bonn"


def test_the_server_speaks_plain_http() -> None:
    with fake_model("A") as model, urlopen(f"{model.url}/v1/models", timeout=10) as reply:
        assert reply.status == 200


@pytest.mark.proves("KIT-node-delay")
@pytest.mark.parametrize("behind_proxy", [False, True], ids=["direct", "proxy"])
def test_an_exchange_waits_for_no_acknowledgement(*, behind_proxy: bool) -> None:
    """Without TCP_NODELAY, every exchange on a kept connection takes 40 ms or more."""
    with fake_model("Hello", exhausted="repeat") as model, ExitStack() as stack:
        options = model.options()
        if behind_proxy:
            proxy = stack.enter_context(ChaosProxy(model.url, plan=[]))
            options["base_url"] = proxy.url
        client = stack.enter_context(LLMClient(**options))
        times = [client.generate(ASK)["seconds"] for _ in range(40)]
    assert median(times) < 0.02
