"""The tracer and the metrics of OpenTelemetry: the only file of the AI client that imports it."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from ..._version import __version__
from . import _telemetry_names as names
from .telemetry import Telemetry

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram

    from ._attributes import Attributes


Value = TypeVar("Value")

logger = logging.getLogger("coreason_client.llm")

_SCOPE = "coreason_client.llm"
_API = ("opentelemetry.metrics", "opentelemetry.trace")
_RELEASED = (
    names.OPERATION_DURATION,
    names.OPERATION_FIRST_CHUNK,
    names.OPERATION_CHUNK,
    names.TOKEN_USAGE,
)
_LATEST = (
    names.OPERATION_DURATION,
    names.INFERENCE_DURATION,
    names.INFERENCE_FIRST_CHUNK,
    names.INFERENCE_CHUNK,
    names.INFERENCE_INPUT,
    names.INFERENCE_OUTPUT,
    names.SPENT_INPUT,
    names.SPENT_OUTPUT,
    names.SPENT_CACHE_READ,
    names.SPENT_CACHE_WRITE,
    names.SPENT_REASONING,
    names.TOOL_DURATION,
    names.AGENT_DURATION,
)


def is_configured() -> bool:
    """Return True if there is a global provider; those of the API itself record nothing.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """
    trace, metrics = _api()
    providers = trace.get_tracer_provider(), metrics.get_meter_provider()
    return not all(_is_of_api(type(provider).__module__) for provider in providers)


# Every call asks, as long as nothing is configured; so the modules are looked up once.
@cache
def _api() -> tuple[ModuleType, ModuleType]:
    from opentelemetry import metrics, trace

    return trace, metrics


@cache
def _is_of_api(module: str) -> bool:
    return module.startswith(_API)


class Instruments:
    """Starts spans and records metrics, with the providers of the options or the global ones."""

    def __init__(self, options: Telemetry) -> None:
        from opentelemetry import context, metrics, trace

        self.options = options
        self.trace = trace
        self.context = context
        self._tracer = trace.get_tracer(_SCOPE, __version__, options.tracer_provider)
        self._meter = metrics.get_meter(_SCOPE, __version__, options.meter_provider)
        chosen = {
            "released": _RELEASED,
            "latest": _LATEST,
            "both": dict.fromkeys((*_RELEASED, *_LATEST)),
        }[options.metric_names]
        self._metrics = {metric: self._instrument(metric) for metric in chosen}

    def record(
        self, metric: names.Metric, value: float, attributes: "Attributes", context: "Context"
    ) -> None:
        """Record a value, if the options select this metric."""
        instrument: Any = self._metrics.get(metric)
        if instrument is not None:
            (instrument.record if metric.boundaries else instrument.add)(value, attributes, context)

    def span(self, name: str, attributes: "Attributes", *, client: bool) -> "Span":
        """Return a span that is not started; its parent is the current span."""
        return Span(self, name, attributes, client=client)

    def start(self, name: str, parent: "Context", attributes: "Attributes", *, client: bool) -> Any:
        """Start a span of OpenTelemetry."""
        kind = self.trace.SpanKind.CLIENT if client else self.trace.SpanKind.INTERNAL
        return self._tracer.start_span(name, parent, kind, attributes)

    def _instrument(self, metric: names.Metric) -> "Histogram | Counter":
        if not metric.boundaries:
            return self._meter.create_counter(metric.name, metric.unit, metric.description)
        return self._meter.create_histogram(
            metric.name,
            metric.unit,
            metric.description,
            explicit_bucket_boundaries_advisory=metric.boundaries,
        )


class Span:
    """A span that ends exactly once.

    Its parent is the span that is current when this object is created. A span of a stream is not
    made current, because a generator runs in the context of whoever reads it.

    Attributes:
        context: the context in which the span is current.
        seconds: the duration, after the end.
    """

    def __init__(
        self, instruments: Instruments, name: str, attributes: "Attributes", *, client: bool
    ) -> None:
        self.instruments = instruments
        self.seconds = 0.0
        self._parent = self.context = instruments.context.get_current()
        self._name = name
        self._attributes = attributes
        self._client = client
        self._span: Any = None
        self._start = 0.0

    def begin(self) -> None:
        """Start the span."""
        make = self.instruments.start
        self._start = time.monotonic()
        self._span = make(self._name, self._parent, self._attributes, client=self._client)
        self.context = self.instruments.trace.set_span_in_context(self._span, self._parent)

    @property
    def records(self) -> bool:
        """True if attributes that are set will be seen."""
        return self._span is not None and self._span.is_recording()

    def set(self, attributes: "Attributes") -> None:
        """Set attributes."""
        self._span.set_attributes(attributes)

    def rename(self, name: str) -> None:
        """Change the name."""
        self._span.update_name(name)

    def add_event(self, name: str, attributes: "Attributes") -> None:
        """Add an event."""
        self._span.add_event(name, attributes)

    def current(self) -> AbstractContextManager[None]:
        """Make the span current for a block, which must not yield."""
        return _attached(self.instruments, self.context)

    def measure(self) -> float:
        """Return the seconds from the start until now, which will be the duration of the span."""
        self.seconds = time.monotonic() - self._start
        return self.seconds

    def end(self, *, failed: bool) -> None:
        """End the span; its duration is what `measure` returned."""
        span, self._span = self._span, None
        if span is None:
            return
        if failed:
            span.set_status(self.instruments.trace.StatusCode.ERROR)
        started = getattr(span, "start_time", None)
        end_time = None if started is None else started + int(self.seconds * 1e9)
        span.end(end_time)


@contextmanager
def _attached(instruments: Instruments, context: "Context") -> Iterator[None]:
    token = instruments.context.attach(context)
    try:
        yield
    finally:
        instruments.context.detach(token)


def report(action: Callable[..., Value], *arguments: Any) -> Value | None:
    """Call a function and return its value; log an error that it raises, and return None.

    Telemetry must not fail what it reports.
    """
    try:
        return action(*arguments)
    except Exception as raised:
        logger.error("telemetry failed: %s", type(raised).__name__, exc_info=raised)
        return None
