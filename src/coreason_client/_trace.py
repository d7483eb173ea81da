"""The W3C trace context of the caller's span, as headers. Pure, and without the library.

Nobody has a current span who has not imported OpenTelemetry, so it is looked for among what is
loaded and never imported: who does not trace pays for one look into a table.
"""

import sys
from collections.abc import Mapping

__all__ = ["trace_headers"]


def trace_headers(*given: Mapping[str, str]) -> dict[str, str]:
    """Return `traceparent` and `tracestate` of the current span; nothing when there is none.

    Nor is there anything when the headers that the caller has `given` hold a `traceparent`: the
    state of one trace must not travel with the parent of another.
    """
    # While another thread imports it, the module is there before its names are.
    get_current_span = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if get_current_span is None or any(_names_parent(headers) for headers in given):
        return {}
    span = get_current_span().get_span_context()
    if not span.is_valid:
        return {}
    headers = {"traceparent": f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"}
    if span.trace_state:
        headers["tracestate"] = span.trace_state.to_header()
    return headers


def _names_parent(headers: Mapping[str, str]) -> bool:
    return any(name.lower() == "traceparent" for name in headers)
