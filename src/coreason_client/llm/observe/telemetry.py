"""`Telemetry`: what the AI client reports to OpenTelemetry."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...errors import ArgumentError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["MetricNames", "Telemetry"]

MetricNames: TypeAlias = Literal["released", "latest", "both"]
"""The names of the conventions that the metrics have; see `docs/llm-operating.md`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The options of spans and metrics.

    Attributes:
        metric_names: "released" for the names of the last release of the conventions, which
            existing dashboards use; "latest" for those of its development; "both" for both.
        record_content: True to record messages, tool definitions, and the arguments and results of
            tools in spans. They may contain personal data.
        send_trace_headers: True to send `traceparent` and `tracestate` to the provider.
        tracer_provider: the tracer provider; None for the global one.
        meter_provider: the meter provider; None for the global one.

    Raises:
        ArgumentError: `metric_names` is not one of these names, or a flag is not True or False.
    """

    metric_names: MetricNames = "released"
    record_content: bool = False
    send_trace_headers: bool = False
    tracer_provider: "TracerProvider | None" = None
    meter_provider: "MeterProvider | None" = None

    def __post_init__(self) -> None:
        if self.metric_names not in ("released", "latest", "both"):
            rule = 'must be "released", "latest" or "both"'
            raise ArgumentError("metric_names", rule, self.metric_names)
        for name in ("record_content", "send_trace_headers"):
            if not isinstance(value := getattr(self, name), bool):
                raise ArgumentError(name, "must be True or False", value)
