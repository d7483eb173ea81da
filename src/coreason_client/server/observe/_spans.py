"""One span for each run of an agent, if OpenTelemetry is installed.

A durable agent may be started again, in another process: then its span is linked to that of the run
before, and both are children of the span of the request.

The names follow the semantic conventions for generative AI (`invoke_agent`). A span has the agent,
the duration and the outcome, and never the content of a conversation.

The agent runs in a context in which its span is current, so spans that the agent starts are its
children, even if the request that started the agent has ended. So are the spans of the AI client.
Without a configured SDK nothing is recorded, but the context of the caller is still propagated.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..._context import error_type

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, StatusCode

    from coreason_manifest.definitions.service import ServiceRequest

    from ..log.base import StreamMeta

_NAMES = ("traceparent", "tracestate")
HANDED_OVER = "handed_over"
"""The outcome of a run whose stream another process continues."""
# Intended outcomes.
_NO_FAILURES = frozenset({"complete", "cancelled", "abandoned", HANDED_OVER})
# The outcome of a stream that its producer could not end.
_LOST = "producer_lost"


class Attempt(NamedTuple):
    """The number of a run of a durable agent, and the span of the run before, if it is known.

    The span has the form of a `traceparent` header.
    """

    number: int
    previous_span: str | None


class HeaderValues(Protocol):
    """The headers of a request; a name may have several values."""

    def getlist(self, key: str) -> list[str]:
        """Return all values of a header."""


class StoredHeaders(dict[str, str]):
    """The headers of the trace that a stored request belongs to."""

    def getlist(self, key: str) -> list[str]:
        """Return all values of a header."""
        return [self[key]] if key in self else []


def trace_headers(headers: HeaderValues) -> dict[str, str]:
    """Return the headers that name the span of the caller, none if they are not clear."""
    values = {name: headers.getlist(name) for name in _NAMES}
    if len(values["traceparent"]) != 1:
        return {}
    return {name: ",".join(found) for name, found in values.items() if found}


class AgentRun:
    """The run of an agent; this class traces nothing."""

    __slots__ = ()

    @property
    def context(self) -> contextvars.Context | None:
        """The context of the agent's task; None for a copy of the current context."""
        return None

    @property
    def span(self) -> str | None:
        """The span as a `traceparent` header, None if there is none."""
        return None

    def end(self, packets: int, outcome: str | None, failure: BaseException | None) -> None:
        """Record the end of the run; `outcome` is None if the end is not in the log."""


NOT_TRACED = AgentRun()


class Tracing:
    """Starts the spans of an application; this class traces nothing."""

    __slots__ = ()

    def begin(
        self,
        agent_id: str,
        headers: HeaderValues,
        request: ServiceRequest,
        meta: StreamMeta,
        attempt: Attempt | None = None,
    ) -> AgentRun:
        """Begin the span of a run, as a child of the span in the headers of the request.

        `attempt` is given for a durable agent.
        """
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
        self,
        agent_id: str,
        headers: HeaderValues,
        request: ServiceRequest,
        meta: StreamMeta,
        attempt: Attempt | None = None,
    ) -> AgentRun:
        if self._has_nothing_to_do(headers):
            return NOT_TRACED
        restarted = attempt is not None and attempt.number > 1
        parent, kind = self._stored_parent(headers) if restarted else self._parent(headers)
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": agent_id,
            "gen_ai.agent.name": agent_id,
            "gen_ai.conversation.id": request.context.session_id,
            "coreason.stream_id": str(meta.stream_id),
            "coreason.request_id": str(meta.request_id),
        }
        if attempt is not None:
            attributes["coreason.attempt"] = attempt.number
        links = self._links(attempt)
        span = self._tracer.start_span(f"invoke_agent {agent_id}", parent, kind, attributes, links)
        if not span.get_span_context().is_valid:  # no SDK, and nothing to propagate
            return NOT_TRACED
        context, current = contextvars.copy_context(), self._trace.set_span_in_context(span, parent)
        context.run(self._context.attach, current)
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, current)
        return _TracedRun(span, context, self._trace.StatusCode.ERROR, carrier["traceparent"])

    def _has_nothing_to_do(self, headers: HeaderValues) -> bool:
        """Return True if there is no SDK, and no span to propagate either."""
        trace = self._trace
        return (
            isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
            and not headers.getlist("traceparent")
            and trace.get_current_span() is trace.INVALID_SPAN
        )

    def _links(self, attempt: Attempt | None) -> list[Link]:
        """Return a link to the run before, if its span is known."""
        if attempt is None or attempt.previous_span is None:
            return []
        context = self._propagator.extract({"traceparent": attempt.previous_span})
        before = self._trace.get_current_span(context).get_span_context()
        return [self._trace.Link(before)] if before.is_valid else []

    def _stored_parent(self, headers: HeaderValues) -> tuple[Context, SpanKind]:
        """Return the parent context and the kind of the span of a restarted agent.

        The current span here is not related to the request.
        """
        parent = self._trace.set_span_in_context(self._caller(headers))
        return parent, self._trace.SpanKind.SERVER

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

    __slots__ = ("_context", "_failed", "_header", "_span")

    def __init__(
        self, span: Span, context: contextvars.Context, failed: StatusCode, header: str
    ) -> None:
        self._span = span
        self._context = context
        self._failed = failed
        self._header = header

    @property
    def span(self) -> str | None:
        return self._header

    @property
    def context(self) -> contextvars.Context | None:
        return self._context

    def end(self, packets: int, outcome: str | None, failure: BaseException | None) -> None:
        span, outcome = self._span, outcome or _LOST
        span.set_attribute("coreason.packets", packets)
        span.set_attribute("coreason.outcome", outcome)
        if failure is not None or outcome not in _NO_FAILURES:
            # Only the type: the text of an exception may contain secrets.
            span.set_attribute("error.type", outcome if failure is None else error_type(failure))
            span.set_status(self._failed)
        span.end()
