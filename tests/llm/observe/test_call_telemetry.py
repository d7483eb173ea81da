"""The span and the metrics of a call, collected with the SDK over real connections."""

import asyncio
import gc
import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from coreason_client.llm import (
    AsyncLLMClient,
    LLMConnectionError,
    LLMError,
    LLMRateLimitError,
    LLMServerError,
)
from coreason_client.llm.observe._attributes import Identity
from coreason_client.llm.observe._spans import CallEnding, outcome_of
from tests.llm.server import Provider, Replied

from .collect import (
    END,
    KEY,
    MESSAGES,
    SSE,
    Collected,
    answer,
    asynchronously,
    event,
    streamed,
    synchronously,
)

BUSY = Replied(503, body=b'{"error": {"message": "busy"}}')
REFUSED = Replied(401, body=b'{"error": {"message": "bad key", "code": "invalid_api_key"}}')
ERRORS = "coreason_client.llm.errors"


def generate(server: Provider, client: str, *, call: Any = None, **options: Any) -> Any:
    call = call or {}
    if client == "sync":
        return synchronously(server, lambda c: c.generate(MESSAGES, **call), **options)
    return asynchronously(server, lambda c: c.generate(MESSAGES, **call), **options)


def read(server: Provider, client: str, *, call: Any = None, **options: Any) -> Any:
    """Read a stream to its end."""
    call = call or {}
    if client == "sync":
        return synchronously(server, lambda c: c.stream(MESSAGES, **call).result(), **options)
    return asynchronously(server, lambda c: c.stream(MESSAGES, **call).result(), **options)


both = pytest.mark.parametrize("client", ["sync", "async"])
calls = pytest.mark.parametrize("perform", [generate, read])


@both
def test_the_span_of_a_call(server: Provider, collected: Collected, client: str) -> None:
    server.replies = [answer()]
    call = {"stop": ["END"], "max_tokens": 50, "extra": {"seed": 4, "top_p": 0.5, "user": "u"}}
    generate(server, client, telemetry=collected.telemetry(), call=call)
    span = collected.span()
    assert (span.name, span.kind) == ("chat m", SpanKind.CLIENT)
    assert (span.status.status_code, span.parent, span.events) == (StatusCode.UNSET, None, ())
    attributes = collected.attributes()
    cost = attributes.pop("coreason.cost_estimate", 0.0)
    assert cost >= 0
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai-compatible",
        "gen_ai.request.model": "m",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.7,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.request.seed": 4,
        "gen_ai.request.top_p": 0.5,
        "server.address": "127.0.0.1",
        "server.port": int(server.url.rpartition(":")[2]),
        "gen_ai.response.id": "chatcmpl-7",
        "gen_ai.response.model": "m-2026",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 7,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "coreason.outcome": "complete",
        "coreason.attempts": 1,
        "coreason.provider_request_id": "req-1",
    }


@both
def test_the_span_of_a_stream(server: Provider, collected: Collected, client: str) -> None:
    server.replies = [streamed("Par", "is")]
    read(server, client, telemetry=collected.telemetry())
    attributes = collected.attributes()
    assert collected.span().name == "chat m"
    assert attributes["gen_ai.request.stream"] is True
    assert attributes["gen_ai.response.id"] == "chatcmpl-8"
    assert attributes["gen_ai.response.model"] == "m-2026"
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes["gen_ai.usage.output_tokens"] == 20
    span = collected.span()
    assert span.end_time is not None
    assert span.start_time is not None
    duration = (span.end_time - span.start_time) / 1e9
    assert 0 < attributes["gen_ai.response.time_to_first_chunk"] <= duration


# Metrics.


def shape(collected: Collected) -> dict[str, Any]:
    """Return the values of the metrics: the sum, or for times the number of points."""
    found: dict[str, Any] = {}
    for name, point in collected.points():
        value = getattr(point, "value", None)
        if value is None:
            value = point.count if "duration" in name or "chunk" in name else point.sum
        kind = point.attributes.get("gen_ai.token.type")
        found[f"{name} {kind}" if kind else name] = value
    return found


OLD = {
    "gen_ai.client.operation.duration": 1,
    "gen_ai.client.token.usage input": 30,
    "gen_ai.client.token.usage output": 20,
}
NEW = {
    "gen_ai.client.inference.duration": 1,
    "gen_ai.client.inference.operation.input_tokens": 30,
    "gen_ai.client.inference.operation.output_tokens": 20,
    "gen_ai.client.inference.usage.input_tokens": 30,
    "gen_ai.client.inference.usage.output_tokens": 20,
    "gen_ai.client.inference.usage.cache_read.input_tokens": 7,
    "gen_ai.client.inference.usage.reasoning.output_tokens": 5,
}


@pytest.mark.parametrize(
    ("chosen", "expected"), [("released", OLD), ("latest", NEW), ("both", OLD | NEW)]
)
def test_the_option_selects_the_names_of_the_metrics(
    server: Provider, collected: Collected, chosen: str, expected: dict[str, int]
) -> None:
    server.replies = [answer()]
    generate(server, "sync", telemetry=collected.telemetry(metric_names=chosen))
    assert shape(collected) == expected


@both
def test_the_times_of_a_stream_are_metrics(
    server: Provider, collected: Collected, client: str
) -> None:
    server.replies = [streamed("a", "b", "c")]  # and three more events at its end
    read(server, client, telemetry=collected.telemetry(metric_names="both"))
    found = shape(collected)
    for prefix in ("gen_ai.client.operation", "gen_ai.client.inference"):
        assert found[f"{prefix}.time_to_first_chunk"] == 1
        assert found[f"{prefix}.time_per_output_chunk"] == 5


def test_a_metric_has_few_attributes_and_the_time_of_the_span(
    server: Provider, collected: Collected
) -> None:
    server.replies = [answer()]
    generate(server, "sync", telemetry=collected.telemetry())
    [point] = collected.metrics()["gen_ai.client.operation.duration"]
    attributes = collected.attributes()
    assert set(point.attributes) == {
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "server.address",
        "server.port",
    }
    assert dict(point.attributes).items() <= attributes.items()
    span = collected.span()
    assert span.end_time is not None
    assert span.start_time is not None
    assert point.sum == pytest.approx((span.end_time - span.start_time) / 1e9, abs=1e-8)
    assert point.explicit_bounds[0] == 0.01
    assert point.explicit_bounds[-1] == 81.92


def test_an_estimated_usage_is_not_reported(server: Provider, collected: Collected) -> None:
    server.replies = [answer(usage=None)]
    response = generate(server, "sync", telemetry=collected.telemetry(metric_names="both"))
    assert response["usage"]["estimated"] is True
    assert not [name for name in collected.attributes() if "gen_ai.usage" in name]
    assert {name for name, _ in collected.points()} == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.inference.duration",
    }


def test_metrics_do_not_depend_on_the_sampling_of_spans(
    server: Provider, collected: Collected
) -> None:
    collected.tracers = TracerProvider(ALWAYS_OFF, shutdown_on_exit=False)
    server.replies = [answer()]
    telemetry = collected.telemetry(record_content=True)
    generate(server, "sync", telemetry=telemetry)
    assert collected.spans == []
    assert shape(collected) == OLD


# Failures, retries and fallbacks.


@both
@calls
def test_retries_are_one_span_with_an_event_for_each_failure(
    server: Provider, collected: Collected, client: str, perform: Callable[..., Any]
) -> None:
    good = answer() if perform is generate else streamed("Paris")
    server.replies = [BUSY, BUSY, good]
    perform(server, client, telemetry=collected.telemetry())
    attributes = collected.attributes()
    assert (attributes["coreason.attempts"], attributes["coreason.outcome"]) == (3, "complete")
    assert collected.span().status.status_code is StatusCode.UNSET
    assert [(event.name, dict(event.attributes or {})) for event in collected.span().events] == [
        (
            "coreason.attempt_failed",
            {
                "coreason.attempt": number,
                "gen_ai.request.model": "m",
                "error.type": f"{ERRORS}.LLMServerError",
            },
        )
        for number in (1, 2)
    ]
    assert shape(collected)["gen_ai.client.operation.duration"] == 1


@both
@calls
def test_a_failure_has_its_type_and_no_text(
    server: Provider, collected: Collected, client: str, perform: Callable[..., Any]
) -> None:
    server.replies = [REFUSED]
    with pytest.raises(LLMError):
        perform(server, client, telemetry=collected.telemetry())
    span = collected.span()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    attributes = collected.attributes()
    assert attributes["error.type"] == f"{ERRORS}.LLMAuthenticationError"
    assert attributes["gen_ai.response.finish_reasons"] == ("error",)
    assert attributes["coreason.outcome"] == "error"
    assert "bad key" not in collected.everything()
    [point] = collected.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["error.type"] == f"{ERRORS}.LLMAuthenticationError"


@both
def test_a_fallback_is_described_by_the_model_that_answered(
    server: Provider, collected: Collected, client: str
) -> None:
    server.replies = [BUSY, answer()]
    call = {"fallbacks": ["other"]}
    generate(server, client, telemetry=collected.telemetry(), call=call, max_retries=0)
    assert collected.span().name == "chat other"
    attributes = collected.attributes()
    assert attributes["gen_ai.request.model"] == "other"
    assert attributes["coreason.requested_model"] == "m"
    [failed] = collected.span().events
    assert (failed.attributes or {})["gen_ai.request.model"] == "m"
    [point] = collected.metrics()["gen_ai.client.operation.duration"]
    assert point.attributes["gen_ai.request.model"] == "other"


@both
def test_a_broken_stream_reports_what_was_received(
    server: Provider, collected: Collected, client: str
) -> None:
    server.replies = [streamed("Par", end=USED, cut=True)]
    with pytest.raises(LLMConnectionError):
        read(server, client, telemetry=collected.telemetry(record_content=True))
    attributes = collected.attributes()
    assert attributes["error.type"] == f"{ERRORS}.LLMConnectionError"
    assert attributes["gen_ai.response.finish_reasons"] == ("error",)
    assert attributes["gen_ai.usage.output_tokens"] == 1
    assert json.loads(attributes["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "text", "content": "Par"}
    ]
    assert [failure.name for failure in collected.span().events] == ["coreason.attempt_failed"]
    assert shape(collected)["gen_ai.client.token.usage output"] == 1


USED = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}\n\n'


@both
def test_the_metrics_count_the_tokens_of_all_attempts(
    server: Provider, collected: Collected, client: str
) -> None:
    server.replies = [streamed("Par", end=USED, cut=True), streamed("Paris")]
    call = {"on_break": "restart"}
    telemetry = collected.telemetry(metric_names="both")
    response = read(server, client, telemetry=telemetry, call=call)
    assert response["spent"]["prompt_tokens"] == 33
    attributes = collected.attributes()
    assert attributes["gen_ai.usage.input_tokens"] == 30  # of the answer
    assert (attributes["coreason.attempts"], attributes["coreason.outcome"]) == (2, "complete")
    assert [failed.name for failed in collected.span().events] == ["coreason.attempt_failed"]
    found = shape(collected)
    assert found["gen_ai.client.token.usage input"] == 33
    assert found["gen_ai.client.inference.usage.output_tokens"] == 21


@both
def test_an_answer_that_is_corrected_is_one_span(
    server: Provider, collected: Collected, client: str
) -> None:
    server.replies = [answer("no JSON"), answer('{"a": "b"}')]
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    call = {"response_format": schema}
    generate(server, client, telemetry=collected.telemetry(), call=call)
    attributes = collected.attributes()
    assert (attributes["coreason.attempts"], attributes["gen_ai.output.type"]) == (2, "json")
    assert "coreason.requested_model" not in attributes
    assert shape(collected)["gen_ai.client.token.usage input"] == 60


def test_a_closed_client_is_a_failure_too(server: Provider, collected: Collected) -> None:
    def work(client: Any) -> None:
        client.close()
        with pytest.raises(LLMConnectionError):
            client.generate(MESSAGES)

    synchronously(server, work, telemetry=collected.telemetry())
    assert collected.attributes()["coreason.attempts"] == 0
    assert collected.span().status.status_code is StatusCode.ERROR


# Calls that their caller ends.


def ended(collected: Collected) -> tuple[str, Any, Any]:
    """Return how the only span ended."""
    attributes = collected.attributes()
    status, reasons = collected.span().status.status_code, "gen_ai.response.finish_reasons"
    assert "error.type" not in attributes
    assert shape(collected)["gen_ai.client.operation.duration"] == 1
    return attributes["coreason.outcome"], status, attributes.get(reasons)


CLOSED = ("closed", StatusCode.UNSET, ("error",))
CANCELLED = ("cancelled", StatusCode.UNSET, ("error",))
COMPLETE = ("complete", StatusCode.UNSET, ("stop",))


@both
def test_a_stream_that_is_closed_early(server: Provider, collected: Collected, client: str) -> None:
    server.replies = [streamed("Par", end=b"", hold=True)]

    def read_one(ours: Any) -> None:
        with ours.stream(MESSAGES) as stream:
            next(stream)
            assert collected.spans == []
        stream.close()

    async def read_one_async(ours: Any) -> None:
        async with ours.stream(MESSAGES) as stream:
            await anext(stream)
            assert collected.spans == []
        await stream.aclose()

    if client == "sync":
        synchronously(server, read_one, telemetry=collected.telemetry())
    else:
        asynchronously(server, read_one_async, telemetry=collected.telemetry())
    assert ended(collected) == CLOSED


def test_the_tokens_of_a_stream_that_is_closed_early_are_counted(
    server: Provider, collected: Collected
) -> None:
    server.replies = [Replied(200, SSE, chunks=[USED, event("Par")], hold=True)]

    def read_one(ours: Any) -> None:
        with ours.stream(MESSAGES) as stream:
            next(stream)

    synchronously(server, read_one, telemetry=collected.telemetry())
    assert ended(collected) == CLOSED
    assert collected.attributes()["gen_ai.usage.input_tokens"] == 3
    assert shape(collected)["gen_ai.client.token.usage output"] == 1


@both
def test_a_stream_that_is_abandoned(server: Provider, collected: Collected, client: str) -> None:
    server.replies = [streamed("Par", end=b"", hold=True)]

    def abandon(ours: Any) -> None:
        next(ours.stream(MESSAGES))
        gc.collect()

    async def abandon_async(ours: Any) -> None:
        await anext(ours.stream(MESSAGES))
        gc.collect()
        async with asyncio.timeout(5):
            while not collected.spans:  # noqa: ASYNC110 - the loop closes the generator soon
                await asyncio.sleep(0)

    if client == "sync":
        synchronously(server, abandon, telemetry=collected.telemetry())
    else:
        asynchronously(server, abandon_async, telemetry=collected.telemetry())
    assert ended(collected) == CLOSED


@both
def test_a_reader_that_stops_at_the_last_delta_has_the_answer(
    server: Provider, collected: Collected, client: str
) -> None:
    server.replies = [streamed("Paris")]

    def read_all(ours: Any) -> None:
        with ours.stream(MESSAGES) as stream:
            for _ in range(3):  # text, usage, finish: the iterator is not exhausted
                next(stream)

    async def read_all_async(ours: Any) -> None:
        async with ours.stream(MESSAGES) as stream:
            for _ in range(3):
                await anext(stream)

    if client == "sync":
        synchronously(server, read_all, telemetry=collected.telemetry())
    else:
        asynchronously(server, read_all_async, telemetry=collected.telemetry())
    assert ended(collected) == COMPLETE


def test_a_stream_that_is_never_read_has_no_span(server: Provider, collected: Collected) -> None:
    synchronously(server, lambda c: c.stream(MESSAGES).close(), telemetry=collected.telemetry())
    assert collected.spans == []
    assert server.received == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_cancelled_call(server: Provider, collected: Collected, *, stream: bool) -> None:
    server.replies = [Replied(silent=True)]

    async def work(ours: AsyncLLMClient) -> None:
        call = ours.stream(MESSAGES).result() if stream else ours.generate(MESSAGES)
        task = asyncio.ensure_future(call)
        async with asyncio.timeout(5):
            while not server.received:  # noqa: ASYNC110 - the server is in another thread
                await asyncio.sleep(0.001)
        assert collected.spans == []
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asynchronously(server, work, telemetry=collected.telemetry())
    assert ended(collected) == CANCELLED


@pytest.mark.parametrize(
    ("error", "response", "outcome"),
    [
        (None, {}, "complete"),
        (None, None, "complete"),
        (LLMServerError("no"), None, "error"),
        (LLMRateLimitError("no"), {}, "error"),
        (GeneratorExit(), None, "closed"),
        (GeneratorExit(), {}, "complete"),
        (asyncio.CancelledError(), None, "cancelled"),
        (asyncio.CancelledError(), {}, "complete"),
        (KeyboardInterrupt(), None, "cancelled"),
    ],
)
def test_the_outcome_of_a_call(error: BaseException | None, response: Any, outcome: str) -> None:
    assert outcome_of(CallEnding(1, error, response, Identity(), None)) == outcome


# The context.


@both
@calls
def test_the_span_is_a_child_of_the_current_one(
    server: Provider, collected: Collected, client: str, perform: Callable[..., Any]
) -> None:
    server.replies = [answer() if perform is generate else streamed("Paris")]
    with collected.tracer.start_as_current_span("mine") as mine:
        perform(server, client, telemetry=collected.telemetry())
        assert trace.get_current_span() is mine
    call, _ = collected.spans
    assert call.parent is not None
    assert call.parent.span_id == mine.get_span_context().span_id


def test_the_parent_of_a_stream_is_current_where_it_is_created(
    server: Provider, collected: Collected
) -> None:
    server.replies = [streamed("Paris")]

    def work(client: Any) -> None:
        with collected.tracer.start_as_current_span("creates") as creates:
            stream = client.stream(MESSAGES)
        with collected.tracer.start_as_current_span("reads") as reads:
            for _ in stream:  # the span of a generator would leak into its reader
                assert trace.get_current_span() is reads
        [call] = [span for span in collected.spans if span.name == "chat m"]
        assert call.parent is not None
        assert call.parent.span_id == creates.get_span_context().span_id

    synchronously(server, work, telemetry=collected.telemetry())


def test_the_span_is_current_while_a_call_waits(server: Provider, collected: Collected) -> None:
    server.replies = [answer()]
    seen: list[Any] = []
    hook = lambda _: seen.append(trace.get_current_span().get_span_context().span_id)  # noqa: E731
    generate(server, "async", telemetry=collected.telemetry(), on_request=hook)
    context = collected.span().context
    assert context is not None
    assert seen == [context.span_id]


@both
@calls
def test_the_trace_is_sent_to_a_provider_only_on_request(
    server: Provider, collected: Collected, client: str, perform: Callable[..., Any]
) -> None:
    good = answer() if perform is generate else streamed("Paris")
    server.replies = [BUSY, good]
    for send in (False, True):
        telemetry = collected.telemetry(send_trace_headers=send)
        perform(server, client, telemetry=telemetry)
    first, _, second = server.received
    context = collected.spans[1].context
    assert context is not None
    assert not [name for name in first.headers if name.startswith("trace")]
    ids = f"{context.trace_id:032x}-{context.span_id:016x}"
    assert second.headers["traceparent"] == f"00-{ids}-{context.trace_flags:02x}"


def test_a_traceparent_of_the_caller_takes_precedence(
    server: Provider, collected: Collected
) -> None:
    server.replies = [answer()]
    own = {"TraceParent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    telemetry = collected.telemetry(send_trace_headers=True)
    generate(server, "sync", telemetry=telemetry, headers=own)
    assert server.received[0].headers["traceparent"] == own["TraceParent"]


# Content and secrets.


@pytest.mark.proves("LLM2-telemetry-content")
def test_content_is_recorded_only_on_request(server: Provider, collected: Collected) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    server.replies = [answer("Paris")]
    generate(server, "sync", telemetry=collected.telemetry(), call={"tools": [tool]})
    assert "France" not in collected.everything()
    assert "Paris" not in collected.everything()
    recording = Collected()
    options = recording.telemetry(record_content=True)
    generate(server, "sync", telemetry=options, call={"tools": [tool]})
    attributes = recording.attributes()
    assert json.loads(attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": MESSAGES[0]["content"]}]}
    ]
    assert json.loads(attributes["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Paris"}]}
    ]
    assert json.loads(attributes["gen_ai.tool.definitions"])[0]["name"] == "f"


@both
@calls
def test_no_key_is_in_spans_and_metrics(
    server: Provider, collected: Collected, client: str, perform: Callable[..., Any]
) -> None:
    """The provider repeats the key wherever it can."""
    chunk = {"id": KEY, "model": KEY, "choices": [{"delta": {"content": KEY}}]}
    first = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    echo = Replied(200, SSE, chunks=[first, END])
    good = answer(KEY, id=KEY, model=KEY) if perform is generate else echo
    error = {"error": {"message": KEY, "code": KEY}}
    bad = Replied(429, {"x-request-id": KEY}, json.dumps(error).encode())
    server.replies = [bad, good, bad]
    options = {"telemetry": collected.telemetry(metric_names="both", record_content=True)}
    perform(server, client, **options)
    with pytest.raises(LLMRateLimitError):
        perform(server, client, max_retries=0, **options)
    assert len(collected.spans) == 2
    assert "chat m" in collected.everything()
    assert KEY not in collected.everything()


# Robustness.


@pytest.mark.proves("LLM2-telemetry-harmless")
@both
@calls
def test_a_failure_of_the_telemetry_does_not_fail_a_call(
    server: Provider,
    collected: Collected,
    caplog: pytest.LogCaptureFixture,
    client: str,
    perform: Callable[..., Any],
) -> None:
    class Broken(Exception):
        pass

    class Processor:
        def on_start(self, *_: Any, **__: Any) -> None:
            raise Broken

        def on_end(self, *_: Any) -> None:
            raise Broken

        def _on_ending(self, *_: Any) -> None:
            raise Broken

        def shutdown(self) -> None: ...

    collected.tracers.add_span_processor(Processor())  # type: ignore[arg-type]
    server.replies = [answer() if perform is generate else streamed("Paris")]
    response = perform(server, client, telemetry=collected.telemetry())
    assert response["data"]["content"] == "Paris"
    assert {record.message for record in caplog.records if "telemetry" in record.message} == {
        "telemetry failed: Broken"
    }
