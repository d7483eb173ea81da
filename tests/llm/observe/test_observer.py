"""The observer of a call, on a clock that only the tests advance. No I/O."""

import json
from typing import Any

import pytest

from coreason_client._http._types import Headers, Request, ResponseHead
from coreason_client.llm import LLMServerError, ResponseInfo
from coreason_client.llm.observe._instruments import Instruments
from coreason_client.llm.observe._observer import ReportingObserver
from coreason_client.llm.observe._spans import CallTelemetry
from coreason_client.sse import ServerSentEvent

from .collect import Collected
from .test_attributes import embedding, plan

REPLY = {"id": "1", "model": "m"}
RESPONSE = {
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "cost_estimate": None,
    },
    "data": {"content": "Hi", "finish_reason": "stop"},
}


class Scene:
    """An observer of a stream with hooks and telemetry."""

    def __init__(self, collected: Collected, *, stream: bool = True) -> None:
        self.now = 100.0
        self.responses: list[ResponseInfo] = []
        self.plan = plan()
        telemetry = CallTelemetry(Instruments(collected.telemetry()), self.plan)
        hook = self.responses.append
        self.observer = ReportingObserver(
            None, hook, telemetry, stream=stream, clock=lambda: self.now
        )

    def start(self) -> Request:
        request = Request("POST", self.plan.url, self.plan.route.headers, b"{}")
        return self.observer.attempt_started(self.plan, request)

    def chunk(self, seconds: float, data: Any = None) -> None:
        self.now += seconds
        event = ServerSentEvent(json.dumps(data or {}).encode())
        assert list(self.observer.watched([event])) == [event]


def test_the_first_chunk_is_measured_from_the_request_that_answered(collected: Collected) -> None:
    scene = Scene(collected)
    with scene.observer:
        scene.start()
        scene.chunk(1.0, {"id": "old", "model": "old"})
        scene.observer.attempt_failed(LLMServerError("no"))
        scene.now += 60
        scene.start()
        scene.chunk(2.0, {"id": "new"})
        scene.chunk(0.5, {"id": "other", "model": "m"})
        scene.observer.attempt_succeeded(RESPONSE)
    attributes = collected.attributes()
    assert attributes["gen_ai.response.time_to_first_chunk"] == 2.0
    assert attributes["gen_ai.response.id"] == "new"
    assert attributes["gen_ai.response.model"] == "m"
    assert attributes["coreason.attempts"] == 2
    [point] = collected.metrics()["gen_ai.client.operation.time_per_output_chunk"]
    assert (point.count, point.sum) == (1, 0.5)
    assert [info.seconds for info in scene.responses] == [1.0, 2.5]


def test_the_identity_is_looked_for_in_the_first_events_only(collected: Collected) -> None:
    scene = Scene(collected)
    with scene.observer:
        scene.start()
        for _ in range(3):
            scene.chunk(0.1, {"model": "m"})
        scene.chunk(0.1, {"id": "late"})
        scene.observer.attempt_succeeded(RESPONSE)
    assert "gen_ai.response.id" not in collected.attributes()
    assert collected.attributes()["gen_ai.response.model"] == "m"


def test_what_comes_after_an_attempt_is_ignored(collected: Collected) -> None:
    scene = Scene(collected)
    with scene.observer:
        scene.observer.head_received(ResponseHead(200, Headers()))
        scene.observer.body_received(b"{}")
        scene.chunk(1.0)
        scene.observer.attempt_failed(LLMServerError("no"))
    assert scene.responses == []
    assert collected.span().events == ()
    assert collected.attributes()["coreason.attempts"] == 0


def test_the_request_is_unchanged_unless_the_trace_is_sent(collected: Collected) -> None:
    scene = Scene(collected)
    with scene.observer:
        assert "traceparent" not in scene.start().headers


def test_of_an_earlier_request_of_the_call_only_the_tokens_count(collected: Collected) -> None:
    scene = Scene(collected, stream=False)
    with pytest.raises(LLMServerError), scene.observer:
        scene.start()
        scene.observer.body_received(json.dumps(REPLY).encode())
        scene.observer.attempt_succeeded(RESPONSE)
        scene.start()
        error = LLMServerError("no")
        scene.observer.attempt_failed(error)
        raise error
    attributes = collected.attributes()
    assert attributes["coreason.outcome"] == "error"
    assert "gen_ai.response.id" not in attributes
    assert attributes["gen_ai.usage.input_tokens"] == 3
    assert [info.error for info in scene.responses] == [None, error]


def test_embeddings_have_a_span_and_the_metrics_of_their_operation(collected: Collected) -> None:
    vectors = embedding(model="e")
    options = collected.telemetry(metric_names="latest", record_content=True)
    telemetry = CallTelemetry(Instruments(options), vectors)
    observer = ReportingObserver(None, None, telemetry, stream=False)
    with observer:
        observer.attempt_started(vectors, Request("POST", vectors.url, {}))
        observer.body_received(b'{"model": "e-2"}')
        observer.attempt_succeeded({"usage": RESPONSE["usage"], "data": {"embeddings": [[0.5]]}})
    assert collected.span().name == "embeddings m"
    attributes = collected.attributes()
    assert attributes["gen_ai.usage.input_tokens"] == 3
    assert attributes["gen_ai.response.model"] == "e-2"
    assert "gen_ai.output.messages" not in attributes
    assert "gen_ai.usage.output_tokens" not in attributes
    assert list(collected.metrics()) == ["gen_ai.client.operation.duration"]


def test_embeddings_that_fail_have_no_finish_reason(collected: Collected) -> None:
    vectors = embedding(model="e")
    telemetry = CallTelemetry(Instruments(collected.telemetry()), vectors)
    with pytest.raises(LLMServerError), ReportingObserver(None, None, telemetry, stream=False):
        raise LLMServerError("no")
    assert collected.attributes()["coreason.outcome"] == "error"
    assert "gen_ai.response.finish_reasons" not in collected.attributes()


def test_a_span_ends_even_if_its_attributes_fail(
    collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise KeyError

    scene = Scene(collected)
    scene.observer.set_spent(fail)
    with scene.observer:
        scene.start()
        scene.observer.attempt_succeeded({"usage": {}})
    assert collected.span().name == "chat m"
    assert "telemetry failed: KeyError" in caplog.text


def test_an_answer_that_is_continued_keeps_its_first_chunk_and_its_id(collected: Collected) -> None:
    scene = Scene(collected)
    with scene.observer:
        scene.start()
        scene.chunk(1.0, {"id": "1", "model": "m"})
        scene.observer.attempt_failed(LLMServerError("no"), continued=True)
        scene.start()
        scene.chunk(9.0)
        scene.observer.attempt_succeeded(RESPONSE)
    attributes = collected.attributes()
    assert attributes["gen_ai.response.time_to_first_chunk"] == 1.0
    assert attributes["gen_ai.response.id"] == "1"
    assert len(collected.span().events) == 1
    assert len(scene.responses) == 2
