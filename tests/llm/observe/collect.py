"""Collects spans and metrics with the SDK of OpenTelemetry, and calls both clients."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from coreason_client.llm import AsyncLLMClient, LLMClient, Telemetry
from tests.llm.server import Provider, Replied

__all__ = [
    "END",
    "KEY",
    "MESSAGES",
    "SSE",
    "Collected",
    "answer",
    "asynchronously",
    "event",
    "streamed",
    "synchronously",
]

KEY = "sk-very-secret-0123456789"
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
SSE = {"content-type": "text/event-stream"}
USAGE = {
    "prompt_tokens": 30,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 7},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


class Collected:
    """A tracer provider and a meter provider, and what they have collected."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tracer = self.tracers.get_tracer("test")

    def telemetry(self, **options: Any) -> Telemetry:
        return Telemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def span(self) -> ReadableSpan:
        """Return the only span."""
        [span] = self.spans
        return span

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the only span."""
        return dict(self.span().attributes or {})

    def points(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the points of every metric."""
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        yield metric.name, point

    def metrics(self) -> dict[str, list[Any]]:
        """Return the points of every metric, by name."""
        found: dict[str, list[Any]] = {}
        for name, point in self.points():
            found.setdefault(name, []).append(point)
        return found

    def everything(self) -> str:
        """Return all that was collected as one text."""
        points = [f"{name} {point.attributes}" for name, point in self.points()]
        return "\n".join([*(span.to_json() for span in self.spans), *points])


def answer(content: str = "Paris", **more: Any) -> Replied:
    body = {
        "id": "chatcmpl-7",
        "model": "m-2026",
        "choices": [{"message": {"content": content}, "finish_reason": "stop"}],
        "usage": USAGE,
        **more,
    }
    return Replied(headers={"x-request-id": "req-1"}, body=json.dumps(body).encode())


def event(text: str | None = None, **more: Any) -> bytes:
    choice = {"delta": {} if text is None else {"content": text}}
    body = {"id": "chatcmpl-8", "model": "m-2026", "choices": [{**choice, **more}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


END = (
    event(finish_reason="stop")
    + b"data: "
    + json.dumps({"choices": [], "usage": USAGE}).encode()
    + b"\n\ndata: [DONE]\n\n"
)


def streamed(*texts: str, end: bytes = END, **options: Any) -> Replied:
    return Replied(200, SSE, chunks=[*map(event, texts), end], **options)


def arguments(server: Provider, options: Mapping[str, Any]) -> dict[str, Any]:
    fixed = {"api_key": KEY, "base_url": server.url, "default_model": "m", "timeout": 10}
    return {**fixed, "first_wait": 0.01, **options}


def synchronously(server: Provider, work: Callable[[Any], Any], **options: Any) -> Any:
    """Run work with a sync client."""
    with LLMClient(**arguments(server, options)) as client:
        return work(client)


def asynchronously(
    server: Provider, work: Callable[[Any], Coroutine[Any, Any, Any]], **options: Any
) -> Any:
    """Run work with an async client."""

    async def go() -> Any:
        async with AsyncLLMClient(**arguments(server, options)) as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(go(), 30))
