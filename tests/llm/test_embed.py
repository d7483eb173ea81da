"""Embeddings through both clients and a real server: batches, retries, limits and errors."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client._drive import Reply, Wait
from coreason_client.llm import (
    AsyncLLMClient,
    EmbeddingResponse,
    LLMAuthenticationError,
    LLMClient,
    LLMConnectionError,
    LLMError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMTimeoutError,
)
from coreason_client.llm._attempts import Attempts, Policy
from coreason_client.llm._embed import EmbedPlan, embed_flow, joined
from coreason_client.llm._limits import RateLimits
from coreason_client.llm._route import Target
from coreason_client.llm.providers.embeddings import EmbedCall
from tests.llm.play import Clock, refusal, reply
from tests.llm.server import Provider, Received, Replied, ServerInThread

KEY = "sk-of-the-embeddings"
MODEL = "openai/text-embedding-3-small"


def vectors(*texts: str) -> dict[str, Any]:
    """A reply with one number for each text: its length."""
    data = [{"index": number, "embedding": [len(text)]} for number, text in enumerate(texts)]
    return {"data": data, "usage": {"prompt_tokens": sum(map(len, texts))}}


def embedded(received: Received) -> Replied:
    return Replied(body=json.dumps(vectors(*received.json["input"])).encode())


def refused(status: int, code: str = "", **headers: str) -> Replied:
    body = {"error": {"message": f"no, {KEY}", "code": code}}
    return Replied(status, headers, json.dumps(body).encode())


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with ServerInThread() as server:
        yield server


@pytest.fixture
def server(provider: Provider) -> Provider:
    provider.received.clear()
    provider.reply = embedded
    return provider


def in_sync(server: Provider, input_: Any, model: str, options: Any, **client: Any) -> Any:
    with LLMClient(KEY, server.url, first_wait=0.001, **client) as ours:
        return ours.embed(input_, model, **options)


def in_async(server: Provider, input_: Any, model: str, options: Any, **client: Any) -> Any:
    async def go() -> EmbeddingResponse:
        async with AsyncLLMClient(KEY, server.url, first_wait=0.001, **client) as ours:
            return await ours.embed(input_, model, **options)

    return asyncio.run(asyncio.wait_for(go(), 20))


@pytest.fixture(params=[in_sync, in_async], ids=["sync", "async"])
def embed(request: pytest.FixtureRequest, server: Provider) -> Any:
    def call(input_: Any, model: str = MODEL, /, *, client: Any = None, **options: Any) -> Any:
        return request.param(server, input_, model, options, **(client or {}))

    return call


def test_one_text(embed: Any, server: Provider) -> None:
    response = embed("Hi")
    assert response.pop("seconds") > 0
    assert response.pop("usage") == {
        "prompt_tokens": 2,
        "completion_tokens": 0,
        "total_tokens": 2,
        "cost_estimate": pytest.approx(4e-8),
    }
    assert response == {
        "status": "success",
        "data": {"embeddings": [[2.0]]},
        "model": MODEL,
        "provider": "openai",
        "request_id": None,
    }
    [sent] = server.received
    assert (sent.method, sent.path) == ("POST", "/v1/embeddings")
    assert sent.headers["authorization"] == f"Bearer {KEY}"


def test_several_texts_keep_their_order(embed: Any, server: Provider) -> None:
    texts = ["a" * number for number in (3, 1, 2)]
    assert embed(texts, "m")["data"]["embeddings"] == [[3.0], [1.0], [2.0]]
    assert server.received[0].json == {"model": "m", "input": texts}


@pytest.mark.proves("LLM2-embeddings")
def test_more_texts_than_a_request_may_have(embed: Any, server: Provider) -> None:
    texts = ["a" * (number % 7 + 1) for number in range(2048 * 2 + 5)]
    response = embed(texts)
    assert response["data"]["embeddings"] == [[float(len(text))] for text in texts]
    assert [len(sent.json["input"]) for sent in server.received] == [2048, 2048, 5]
    total = sum(map(len, texts))
    assert response["usage"]["prompt_tokens"] == response["usage"]["total_tokens"] == total
    assert response["usage"]["cost_estimate"] == pytest.approx(total * 2e-8)


def test_each_request_of_a_call_is_retried(embed: Any, server: Provider) -> None:
    """The second request fails twice; the first is not sent again."""
    failures = [refused(429), refused(500)]

    def answer(received: Received) -> Replied:
        is_second = received.json["input"] == ["b"]
        return failures.pop(0) if is_second and failures else embedded(received)

    server.reply = answer
    response = embed(["a"] * 2048 + ["b"], client={"max_retries": 2})
    assert len(response["data"]["embeddings"]) == 2049
    assert [len(sent.json["input"]) for sent in server.received] == [2048, 1, 1, 1]


@pytest.mark.parametrize(
    ("reply", "kind", "attempts"),
    [
        (refused(401, "invalid_api_key"), LLMAuthenticationError, 1),
        (refused(400), LLMRequestError, 1),
        (refused(429), LLMRateLimitError, 2),
        (Replied(body=b"<html>"), LLMResponseError, 2),
        (Replied(body=b'{"data": []}'), LLMResponseError, 1),
        (Replied(body=b"{}", cut=True), LLMConnectionError, 2),
    ],
)
def test_the_error_of_a_provider(
    embed: Any, server: Provider, reply: Replied, kind: type[LLMError], attempts: int
) -> None:
    server.reply = lambda _: reply
    with pytest.raises(kind) as caught:
        embed("Hi", client={"max_retries": 1})
    error = caught.value
    assert (error.provider, error.model) == ("openai", "text-embedding-3-small")
    assert error.attempts == len(server.received) == attempts
    assert KEY not in f"{error} {error.body}"


def test_a_callable_returns_the_key_once_for_all_requests(server: Provider) -> None:
    tokens = iter(["token-1", "token-2", "token-3"])
    with LLMClient(lambda: next(tokens), server.url) as ours:
        ours.embed(["a"] * 2049, MODEL)
    assert [sent.headers["authorization"] for sent in server.received] == ["Bearer token-1"] * 2


def test_a_key_that_expires_between_two_requests_is_fetched_again(server: Provider) -> None:
    tokens = iter(["token-1", "token-2", "token-3"])

    def answer(received: Received) -> Replied:
        expired = (
            len(received.json["input"]) == 1 and "token-1" in received.headers["authorization"]
        )
        return refused(401, "invalid_api_key") if expired else embedded(received)

    server.reply = answer
    with LLMClient(lambda: next(tokens), server.url) as ours:
        assert len(ours.embed(["a"] * 2049, MODEL)["data"]["embeddings"]) == 2049
    sent = [request.headers["authorization"][-1] for request in server.received]
    assert sent == ["1", "1", "2"]


def test_the_deadline_is_that_of_the_whole_call(embed: Any, server: Provider) -> None:
    server.reply = lambda received: Replied(silent=True)
    with pytest.raises(LLMTimeoutError):
        embed("Hi", client={"deadline": 0.2, "max_retries": 5})


def test_nothing_is_sent_for_a_wrong_argument(embed: Any, server: Provider) -> None:
    with pytest.raises(LLMRequestError, match=r"input\[1\] must be text, got 5"):
        embed(["a", 5])
    with pytest.raises(LLMRequestError, match="anthropic has no embeddings"):
        embed("a", "anthropic/claude-sonnet-4-5")
    assert server.received == []


def test_the_sync_client_serves_threads(server: Provider) -> None:
    found: list[Any] = []
    with LLMClient(KEY, server.url) as ours:

        def work(text: str) -> None:
            found.append((len(text), ours.embed(text, MODEL)["data"]["embeddings"]))

        threads = [threading.Thread(target=work, args=("a" * n,)) for n in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert sorted(found) == [(n, [[float(n)]]) for n in range(1, 9)]


# The flow, on a clock that only the tests advance.


def plans(*texts: str) -> list[EmbedPlan]:
    route = Target("http://127.0.0.1:9", KEY).route(MODEL)
    return [EmbedPlan(EmbedCall(route.model, [text]), route, MODEL) for text in texts]


def play(requests: list[EmbedPlan], outcomes: list[Reply], clock: Clock, **policy: Any) -> Any:
    attempts = Attempts(
        requests[:1], Policy(jitter=lambda: 0.0, clock=clock, deadline=100, **policy)
    )
    flow, sent = embed_flow(attempts, requests), None
    try:
        while True:
            step = flow.send(sent)
            sent = None
            if isinstance(step, Wait):
                clock.now += step.seconds
            else:
                clock.now += 10
                sent = outcomes.pop(0)
    except StopIteration as done:
        return done.value


def test_the_time_of_a_call_is_that_of_all_its_requests() -> None:
    found = [reply(200, vectors("a")), refusal(500), reply(200, vectors("bb"))]
    responses = play(plans("a", "bb"), found, Clock())
    assert joined(responses)["seconds"] == 31.0  # three requests and a wait of one second
    assert joined(responses)["data"]["embeddings"] == [[1.0], [2.0]]


def test_the_error_of_a_later_request_counts_its_own_attempts() -> None:
    found = [reply(200, vectors("a")), refusal(500), refusal(500)]
    with pytest.raises(LLMError) as caught:
        play(plans("a", "bb"), found, Clock(), max_retries=1)
    assert caught.value.attempts == 2


def test_a_later_request_waits_for_the_limits_of_the_client() -> None:
    clock = Clock()
    found = [reply(200, vectors("a")), reply(200, vectors("b")), reply(200, vectors("c"))]
    play(plans("a", "b", "c"), found, clock, limits=RateLimits(2, None))
    assert clock.now == 1070.0  # the third is sent a minute after the first


def test_the_tokens_of_each_request_are_settled() -> None:
    clock, limits = Clock(), RateLimits(None, 100)
    found = [reply(200, vectors("a" * 60)), reply(200, vectors("a" * 50))]
    play(plans("a", "b"), found, clock, limits=limits)
    assert clock.now == 1020.0  # the second fits, because its estimate is small
    late = limits.reserve(10, clock.now, 1000)
    assert late is not None
    assert limits.wait(late, clock.now) > 0  # together they used more than the limit


def test_the_cost_of_a_call_is_not_known_if_that_of_a_request_is_not() -> None:
    responses = play(plans("a", "b"), [reply(200, vectors("a")), reply(200, vectors("b"))], Clock())
    responses[0]["usage"]["cost_estimate"] = None
    responses[1]["usage"]["estimated"] = True
    usage = joined(responses)["usage"]
    assert usage["cost_estimate"] is None
    assert usage["estimated"] is True
