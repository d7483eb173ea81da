"""One span for each run of an agent, if OpenTelemetry is installed.

The names follow the semantic conventions for generative AI (`invoke_agent`). A span has the agent,
the duration and the outcome, and never the content of a conversation.

The agent runs in a context in which its span is current, so spans that the agent starts are its
children, even if the request that started the agent has ended. The LLM client starts no spans.
Without a configured SDK nothing is recorded, but the context of the caller is still propagated.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, StatusCode

    from coreason_manifest.definitions.service import ServiceRequest

    from ..log.base import StreamMeta

__all__ = ["NOT_TRACED", "AgentRun", "HeaderValues", "Tracing", "tracing"]

_NAMES = ("traceparent", "tracestate")
# Intended outcomes.
_NO_FAILURES = frozenset({"complete", "cancelled", "abandoned"})
# The outcome of a stream that its producer could not end.
_LOST = "producer_lost"


class HeaderValues(Protocol):
    """The headers of a request; a name may have several values."""

    def getlist(self, key: str) -> list[str]:
        """Return all values of a header."""


class AgentRun:
    """The run of an agent; this class traces nothing."""

    __slots__ = ()

    @property
    def context(self) -> contextvars.Context | None:
        """The context of the agent's task; None for a copy of the current context."""
        return None

    def end(self, packets: int, outcome: str | None, failure: BaseException | None) -> None:
        """Record the end of the run; `outcome` is None if the end is not in the log."""


NOT_TRACED = AgentRun()


class Tracing:
    """Starts the spans of an application; this class traces nothing."""

    __slots__ = ()

    def begin(
        self, agent_id: str, headers: HeaderValues, request: ServiceRequest, meta: StreamMeta
    ) -> AgentRun:
        """Begin the span of a run, as a child of the span in the headers of the request."""
        return NOT_TRACED


def tracing(version: str) -> Tracing:
    """Return a tracer for OpenTelemetry, or one that traces nothing if it is not installed."""
    try:
        return _OpenTelemetry(version)
    except ImportError:
        return Tracing()


class _OpenTelemetry(Tracing):
    """Starts spans with the tracer provider that the application has configured."""

    __slots__ = ("_context", "_propagator", "_trace", "_tracer")

    def __init__(self, version: str) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation import tracecontext

        self._context = context
        self._trace = trace
        self._propagator = tracecontext.TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("coreason_client.server", version)

    def begin(
        self, agent_id: str, headers: HeaderValues, request: ServiceRequest, meta: StreamMeta
    ) -> AgentRun:
        parent, kind = self._parent(headers)
        span = self._tracer.start_span(
            f"invoke_agent {agent_id}",
            parent,
            kind,
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.id": agent_id,
                "gen_ai.agent.name": agent_id,
                "gen_ai.conversation.id": request.context.session_id,
                "coreason.stream_id": str(meta.stream_id),
                "coreason.request_id": str(meta.request_id),
            },
        )
        if not span.get_span_context().is_valid:  # no SDK, and nothing to propagate
            return NOT_TRACED
        context = contextvars.copy_context()
        context.run(self._context.attach, self._trace.set_span_in_context(span, parent))
        return _TracedRun(span, context, self._trace.StatusCode.ERROR)

    def _parent(self, headers: HeaderValues) -> tuple[Context, SpanKind]:
        """Return the parent context and the kind of the new span.

        A current span in the trace of the caller was started by an instrumented HTTP server around
        this application: it is the parent. A current span of another trace is not related to the
        request, for example a span around the whole server.
        """
        trace, here = self._trace, self._context.get_current()
        local = trace.get_current_span(here).get_span_context()
        caller = self._caller(headers)
        remote = caller.get_span_context()
        if local.is_valid and (not remote.is_valid or local.trace_id == remote.trace_id):
            return here, trace.SpanKind.INTERNAL
        return trace.set_span_in_context(caller, here), trace.SpanKind.SERVER

    def _caller(self, headers: HeaderValues) -> Span:
        """Return the span in the headers, or an invalid span if they have none."""
        carrier = {name: values for name in _NAMES if (values := headers.getlist(name))}
        if len(carrier.get("traceparent", ())) != 1:  # with two it is unknown which is right
            return self._trace.INVALID_SPAN
        return self._trace.get_current_span(self._propagator.extract(carrier))


class _TracedRun(AgentRun):
    """The run of an agent, with its span."""

    __slots__ = ("_context", "_failed", "_span")

    def __init__(self, span: Span, context: contextvars.Context, failed: StatusCode) -> None:
        self._span = span
        self._context = context
        self._failed = failed

    @property
    def context(self) -> contextvars.Context | None:
        return self._context

    def end(self, packets: int, outcome: str | None, failure: BaseException | None) -> None:
        span, outcome = self._span, outcome or _LOST
        span.set_attribute("coreason.packets", packets)
        span.set_attribute("coreason.outcome", outcome)
        if failure is not None or outcome not in _NO_FAILURES:
            # Only the type: the text of an exception may contain secrets.
            span.set_attribute("error.type", outcome if failure is None else _name(failure))
            span.set_status(self._failed)
        span.end()


def _name(error: BaseException) -> str:
    kind = type(error)
    inner = kind.__qualname__
    return inner if kind.__module__ == "builtins" else f"{kind.__module__}.{inner}"
