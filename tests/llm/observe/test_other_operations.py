"""Embeddings and lists of models: their spans and hooks."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from coreason_client.llm import LLMServerError, ResponseInfo
from coreason_client.llm.providers.embeddings import EMBEDDINGS
from tests.llm.server import Provider, Replied

from .collect import KEY, Collected, asynchronously, synchronously

BUSY = Replied(503, body=b'{"error": {"message": "busy"}}')
both = pytest.mark.parametrize("client", ["sync", "async"])


def vectors(count: int) -> Replied:
    data = [{"index": index, "embedding": [0.5]} for index in range(count)]
    usage = {"prompt_tokens": 4, "total_tokens": 4}
    body = {"data": data, "model": "e-2026", "usage": usage}
    return Replied(body=json.dumps(body).encode())


def run(server: Provider, client: str, work: Any, **options: Any) -> Any:
    perform: Callable[..., Any] = synchronously if client == "sync" else asynchronously
    return perform(server, work, **options)


@both
def test_embeddings_are_a_span(server: Provider, collected: Collected, client: str) -> None:
    server.replies = [BUSY, vectors(2)]
    telemetry = collected.telemetry(metric_names="both", record_content=True)
    run(server, client, lambda c: c.embed(["a", "b"], "e", dimensions=1), telemetry=telemetry)
    span, attributes = collected.span(), collected.attributes()
    assert (span.name, span.kind) == ("embeddings e", SpanKind.CLIENT)
    attributes.pop("coreason.cost_estimate", None)
    assert attributes == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "openai-compatible",
        "gen_ai.request.model": "e",
        "gen_ai.embeddings.dimension.count": 1,
        "gen_ai.response.model": "e-2026",
        "gen_ai.usage.input_tokens": 4,
        "server.address": "127.0.0.1",
        "server.port": int(server.url.rpartition(":")[2]),
        "coreason.attempts": 2,
        "coreason.outcome": "complete",
    }
    assert [event.name for event in span.events] == ["coreason.attempt_failed"]
    metrics = collected.metrics()
    assert set(metrics) == {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"}
    [point] = metrics["gen_ai.client.token.usage"]
    assert (point.sum, point.attributes["gen_ai.token.type"]) == (4, "input")


@pytest.fixture
def two_texts_per_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(EMBEDDINGS["openai"]), "texts_per_request", lambda *_: 2)


@both
@pytest.mark.usefixtures("two_texts_per_request")
def test_embeddings_in_several_requests_are_one_span(
    server: Provider, collected: Collected, client: str
) -> None:
    server.replies = [vectors(2), BUSY, vectors(1)]
    log: list[ResponseInfo] = []
    options = {"telemetry": collected.telemetry(), "on_response": log.append}
    run(server, client, lambda c: c.embed(["a", "b", "c"], "e"), **options)
    assert collected.attributes()["coreason.attempts"] == 3
    assert collected.attributes()["gen_ai.usage.input_tokens"] == 8
    assert "coreason.requested_model" not in collected.attributes()
    assert [info.attempt for info in log] == [1, 2, 3]
    assert [info.status for info in log] == [200, 503, 200]


@pytest.mark.usefixtures("two_texts_per_request")
def test_the_tokens_of_embeddings_before_a_failure_are_counted(
    server: Provider, collected: Collected
) -> None:
    server.replies = [vectors(2), BUSY]
    options = {"telemetry": collected.telemetry(), "max_retries": 0}
    with pytest.raises(LLMServerError):
        run(server, "sync", lambda c: c.embed(["a", "b", "c"], "e"), **options)
    assert collected.span().status.status_code is StatusCode.ERROR
    [point] = collected.metrics()["gen_ai.client.token.usage"]
    assert point.sum == 4


@both
def test_a_list_of_models_has_hooks_but_no_span(
    server: Provider, collected: Collected, client: str
) -> None:
    """The conventions have no operation for it; each page is a request."""
    pages = [
        {"data": [{"id": "a", "type": "model"}], "has_more": True, "last_id": "a"},
        {"data": [{"id": "b", "type": "model"}], "has_more": False, "last_id": "b"},
    ]
    server.replies = [Replied(body=json.dumps(page).encode()) for page in pages]
    log: list[ResponseInfo] = []
    options = {"provider": "anthropic", "telemetry": collected.telemetry()}
    found = run(server, client, lambda c: c.models(), on_response=log.append, **options)
    assert len(found) == len(log) == 2
    assert [(info.attempt, info.status, info.error) for info in log] == [
        (1, 200, None),
        (2, 200, None),
    ]
    assert (collected.spans, collected.metrics()) == ([], {})


def test_a_key_of_a_callable_is_hidden(server: Provider, collected: Collected) -> None:
    server.replies = [vectors(1)]
    log: list[Any] = []
    options = {"telemetry": collected.telemetry(), "on_request": log.append}
    run(server, "sync", lambda c: c.embed("a", "e"), api_key=lambda: KEY, **options)
    assert KEY in server.received[0].headers["authorization"]
    assert KEY not in f"{log[0].headers} {collected.everything()}"
