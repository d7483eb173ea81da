"""The context of the code that calls: the stream of its agent, and its span.

The stream is found through context variables. The server sets it, and the AI client finds it, so
that the calls of a run are steps of a durable agent.
"""

import contextvars
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio  # a program with the sync client does not need it


@dataclass(frozen=True, slots=True)
class _Agent:
    """The agent that calls: its `AgentStream`, and the event loop that it runs on.

    Both classes of streams are defined in the server, which this module does not know.
    """

    stream: Any
    loop: "asyncio.AbstractEventLoop"
    durable: bool


_agent: contextvars.ContextVar[_Agent | None] = contextvars.ContextVar("agent", default=None)
# The `SyncAgentStream` of an agent that is a plain function, in its thread.
_sync_stream: contextvars.ContextVar[Any] = contextvars.ContextVar("sync_stream", default=None)


def set_current_stream(stream: object, *, durable: bool) -> None:
    """Regard this context, which is on the event loop, as that of the agent of a stream."""
    from asyncio import get_running_loop

    _agent.set(_Agent(stream, get_running_loop(), durable))


def set_current_sync_stream(stream: object) -> None:
    """Regard this context as that of the plain agent of a stream."""
    _sync_stream.set(stream)


def current_stream() -> Any:
    """Return the stream of the agent that calls, None outside agents."""
    agent = _agent.get()
    return None if agent is None else agent.stream


def durable_stream() -> Any:
    """Return the stream of the durable agent that calls on its event loop, otherwise None.

    The context variables of an agent are also those of its threads, which may have their own event
    loop.
    """
    agent = _agent.get()
    if agent is None or not agent.durable:
        return None
    from asyncio import get_running_loop

    return agent.stream if get_running_loop() is agent.loop else None


def durable_sync_stream() -> Any:
    """Return the stream of the durable agent that is a plain function and calls, otherwise None."""
    agent = _agent.get()
    return _sync_stream.get() if agent is not None and agent.durable else None


def caller_headers() -> dict[str, str]:
    """Return the header that names the stream of the agent that calls; empty outside agents.

    A server with an order of answers must know it: an agent must not wait for its own end.
    """
    stream = current_stream()
    return {} if stream is None else {"X-Caller-Stream-ID": str(stream.stream_id)}


# The W3C trace context of the caller's span as headers, and the names of errors. Pure.
#
# If OpenTelemetry was never imported, there is no current span. So it is looked up in `sys.modules`
# and never imported here; without tracing this costs one dict lookup.


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
