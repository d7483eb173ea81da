"""Spans and metrics of OpenTelemetry."""

import pytest
from opentelemetry import metrics, trace
from opentelemetry.trace import StatusCode

from coreason_client.llm import Telemetry
from coreason_client.llm.observe import _telemetry_names as names
from coreason_client.llm.observe._instruments import Instruments, is_configured
from tests.llm.server import Provider

from .collect import MESSAGES, Collected, answer, streamed, synchronously


def test_a_span_ends_once(collected: Collected) -> None:
    span = Instruments(collected.telemetry()).span("a", {"b": 1}, client=True)
    span.begin()
    assert span.records
    span.measure()
    span.end(failed=True)
    span.end(failed=False)
    assert collected.span().status.status_code is StatusCode.ERROR
    assert collected.attributes() == {"b": 1}
    assert not span.records


def test_a_span_that_was_not_started_is_not_ended(collected: Collected) -> None:
    span = Instruments(collected.telemetry()).span("a", {}, client=True)
    assert not span.records
    span.end(failed=True)
    assert collected.spans == []


def test_a_span_is_current_in_a_block(collected: Collected) -> None:
    span = Instruments(collected.telemetry()).span("a", {}, client=False)
    span.begin()
    before = trace.get_current_span()
    with pytest.raises(KeyError), span.current():
        assert trace.get_current_span().get_span_context().is_valid
        raise KeyError
    assert trace.get_current_span() is before
    span.end(failed=False)


def test_a_metric_that_is_not_selected_is_not_recorded(collected: Collected) -> None:
    instruments = Instruments(collected.telemetry(metric_names="released"))
    span = instruments.span("a", {}, client=True)
    instruments.record(names.INFERENCE_DURATION, 1.0, {}, span.context)
    instruments.record(names.OPERATION_DURATION, 1.0, {}, span.context)
    assert list(collected.metrics()) == ["gen_ai.client.operation.duration"]


def test_two_clients_share_the_metrics(
    collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        instruments = Instruments(collected.telemetry(metric_names="both"))
        context = instruments.span("a", {}, client=True).context
        instruments.record(names.SPENT_INPUT, 2, {}, context)
    [point] = collected.metrics()["gen_ai.client.inference.usage.input_tokens"]
    assert point.value == 4
    assert not caplog.records


def test_providers_that_record_nothing_are_used_like_others(server: Provider) -> None:
    nothing = Telemetry(
        tracer_provider=trace.NoOpTracerProvider(),
        meter_provider=metrics.NoOpMeterProvider(),
        record_content=True,
        send_trace_headers=True,
    )
    server.replies = [answer(), streamed("Paris")]
    call = synchronously(server, lambda c: c.generate(MESSAGES), telemetry=nothing)
    stream = synchronously(server, lambda c: c.stream(MESSAGES).result(), telemetry=nothing)
    assert call["data"]["content"] == stream["data"]["content"] == "Paris"
    assert "traceparent" not in server.received[0].headers


def test_only_an_sdk_counts_as_configured(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_configured()
    monkeypatch.setattr("opentelemetry.metrics.get_meter_provider", lambda: collected.meters)
    assert is_configured()
