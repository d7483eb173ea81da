"""The W3C trace context of the caller's span as headers, and the names of errors. Pure.

If OpenTelemetry was never imported, there is no current span. So it is looked up in `sys.modules`
and never imported here; without tracing this costs one dict lookup.
"""

import sys
from collections.abc import Mapping

__all__ = ["error_type", "trace_headers"]


def trace_headers(*caller_headers: Mapping[str, str]) -> dict[str, str]:
    """Return `traceparent` and `tracestate` of the current span; empty without a span.

    Also empty if the caller's own headers contain a `traceparent`: the state of one trace must not
    be sent with the parent of another.
    """
    # While another thread imports the module, it is in `sys.modules` before its names are defined.
    get_current_span = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if get_current_span is None or any(map(_has_traceparent, caller_headers)):
        return {}
    span = get_current_span().get_span_context()
    if not span.is_valid:
        return {}
    headers = {"traceparent": f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"}
    if span.trace_state:
        headers["tracestate"] = span.trace_state.to_header()
    return headers


def error_type(error: BaseException) -> str:
    """Return the `error.type` of an exception: its class; its text may contain secrets."""
    kind = type(error)
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def _has_traceparent(headers: Mapping[str, str]) -> bool:
    return any(name.lower() == "traceparent" for name in headers)
