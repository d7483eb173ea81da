"""The module functions: sync and async ones, each with a shared client."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from coreason_client.llm import (
    Finish,
    LLMClient,
    TextDelta,
    _from_env,
    embed,
    embed_sync,
    generate,
    generate_sync,
    models,
    models_sync,
    stream,
    stream_sync,
)

from .server import Provider, Replied, ServerInThread
from .test_client import KEY, MESSAGES, answer, streamed


@pytest.fixture(autouse=True)
def no_shared_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each test begin without clients, and leave no connection."""
    monkeypatch.setattr(_from_env, "_shared", _from_env.SharedClients())
    yield
    known = _from_env._shared._clients.get(LLMClient)
    if known is not None:
        known[1].close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with ServerInThread(answer()) as provider:
        monkeypatch.setenv("LLM_API_KEY", KEY)
        monkeypatch.setenv("LLM_API_BASE_URL", provider.url)
        yield provider


def test_sync_calls_share_a_connection(server: Provider) -> None:
    for _ in range(3):
        response = generate_sync(MESSAGES, "m", max_tokens=5)
        assert response["data"]["content"] == "Hi"
    assert [sent.json["max_tokens"] for sent in server.received] == [5] * 3
    assert server.connections == 1


def test_sync_calls_work_where_an_event_loop_is_running(server: Provider) -> None:
    async def cell_of_a_notebook() -> str | None:
        return generate_sync(MESSAGES, "m")["data"]["content"]

    assert asyncio.run(cell_of_a_notebook()) == "Hi"


def test_the_shortest_streaming_program(server: Provider) -> None:
    server.replies = [streamed("Hel", "lo")]
    assert list(stream_sync(MESSAGES, "m").text()) == ["Hel", "lo"]
    with stream_sync(MESSAGES, "m") as deltas:
        received = list(deltas)
        assert [d.text for d in received if isinstance(d, TextDelta)] == ["Hel", "lo"]
        assert received[-1] == Finish("stop")
        assert deltas.result()["data"]["content"] == "Hello"


def test_the_text_of_an_async_stream(server: Provider) -> None:
    server.replies = [streamed("Hel", "lo")]

    async def go() -> list[str]:
        return [text async for text in stream(MESSAGES, "m").text()]

    assert asyncio.run(go()) == ["Hel", "lo"]


def test_threads_share_the_client(server: Provider) -> None:
    found: list[str | None] = []

    def work() -> None:
        found.extend(generate_sync(MESSAGES, "m")["data"]["content"] for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == ["Hi"] * 20
    assert server.connections <= 4


def test_a_forked_child_can_create_a_client() -> None:
    shared = _from_env.SharedClients()
    shared._lock.acquire()
    shared.after_fork()
    assert not shared._lock.locked()


def test_a_changed_configuration_is_used_with_the_same_connections(
    server: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate_sync(MESSAGES, "m")
    monkeypatch.setenv("LLM_API_KEY", "another-key-0123")
    generate_sync(MESSAGES, "m")
    sent = [request.headers["authorization"] for request in server.received]
    assert sent == [f"Bearer {KEY}", "Bearer another-key-0123"]
    assert server.connections == 1


def test_embeddings_and_models_use_the_same_connections(server: Provider) -> None:
    vectors = Replied(body=b'{"data": [{"embedding": [0.5]}]}')
    listed = Replied(body=b'{"data": [{"id": "a"}]}')
    server.replies = [vectors, listed, vectors, listed]
    assert embed_sync("Hi", "m")["data"]["embeddings"] == [[0.5]]
    assert [model["id"] for model in models_sync()] == ["a"]
    assert server.connections == 1

    async def go() -> None:
        assert (await embed("Hi", "m"))["data"]["embeddings"] == [[0.5]]
        assert [model["id"] for model in await models()] == ["a"]

    asyncio.run(go())
    paths = ["/v1/embeddings", "/v1/models"]
    assert [sent.path for sent in server.received] == paths * 2


def test_sync_and_async_functions_take_the_same_arguments() -> None:
    import inspect

    pairs = (generate, generate_sync), (stream, stream_sync), (embed, embed_sync)
    for one, other in (*pairs, (models, models_sync)):
        assert inspect.signature(one).parameters == inspect.signature(other).parameters
