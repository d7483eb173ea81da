"""All uses of undocumented names of uvicorn.

uvicorn documents how to run it, but not its connection and response objects.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .._fallback import report_fallback

_CYCLES = (
    ("uvicorn.protocols.http.h11_impl", "RequestResponseCycle"),
    ("uvicorn.protocols.http.httptools_impl", "RequestResponseCycle"),
)
_CYCLE_NAMES = (
    *("disconnected", "flow", "message_event", "more_body"),
    *("response_complete", "response_started", "transport"),
)
_FLOW_NAMES = ("resume_reading", "write_paused")
# The classes of responses that were looked at, and whether they have these names.
_known_cycles: dict[type, bool] = {}
# What the limits of connections need: of all protocols, of each one, and of their responses.
_PROTOCOL_NAMES = (
    *("client", "config", "cycle", "loop", "on_response_complete", "shutdown", "transport"),
    *("connection_lost", "connection_made", "data_received"),
)
_PROTOCOLS = {
    "H11Protocol": ("conn",),
    "HttpToolsProtocol": ("headers", "on_header", "on_headers_complete", "on_message_begin"),
}
_GUARDED_CYCLE_NAMES = (
    *("default_headers", "keep_alive", "response_complete", "response_started", "transport"),
)


def response_cycle(send: object) -> Any | None:
    """Return the uvicorn response object of a `send`, None for another server."""
    cycle: Any = getattr(send, "__self__", None)
    known = _known_cycles.get(type(cycle))
    if known is None:
        if type(cycle) not in _cycle_types():
            return None
        known = _known_cycles[type(cycle)] = _has_names(cycle)
        if not known:
            _report_cycles()
    return cycle if known else None


def _has_names(cycle: Any) -> bool:
    state = vars(cycle) if hasattr(cycle, "__dict__") else {}
    return all(name in state for name in _CYCLE_NAMES) and all(
        hasattr(cycle.flow, name) for name in _FLOW_NAMES
    )


def _cycle_types() -> Iterator[type]:
    for module, name in _CYCLES:
        if (loaded := sys.modules.get(module)) is None:
            continue
        if (found := getattr(loaded, name, None)) is None:
            _report_cycles()
        else:
            yield found


def _report_cycles() -> None:
    report_fallback("the responses of uvicorn are", "chunks are sent through ASGI, slower")


class DisconnectWatch(asyncio.Event):
    """Calls a function when the peer of a response has disconnected, without a task for it.

    It takes the place of the event that uvicorn sets for whoever waits in `receive`, so nobody may
    do that at the same time.
    """

    def __init__(self, cycle: Any, on_disconnect: Callable[[], None]) -> None:
        super().__init__()
        self._cycle = cycle
        self._on_disconnect: Callable[[], None] | None = on_disconnect
        cycle.message_event = self
        cycle.flow.resume_reading()  # as `receive` does; otherwise nothing may be noticed
        self._call_if_disconnected()

    def set(self) -> None:
        """Record that something has happened to the request or to the response."""
        super().set()
        self._call_if_disconnected()

    def stop(self) -> None:
        """Call the function no more."""
        self._on_disconnect = None

    def _call_if_disconnected(self) -> None:
        if self._cycle.disconnected and self._on_disconnect is not None:
            self._on_disconnect()


class HeldHead:
    """Stands in for the transport of a response until its head is written with the first chunk.

    One system call and one segment are saved if the first chunk follows at once. The head waits for
    two turns of the event loop at most: in the first one the agent starts to write.
    """

    def __init__(self, cycle: Any) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._loop = asyncio.get_running_loop()
        self._head = b""
        cycle.transport = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Keep the head, or write the head and the first chunk."""
        if self._head or self._cycle.transport is not self:
            self.release(data)
        else:
            self._head = data
            self._loop.call_soon(self._loop.call_soon, self.release)

    def close(self) -> None:
        """Close the connection after everything was written."""
        self.release()
        self._transport.close()

    def release(self, data: bytes = b"") -> None:
        """Write what is kept, and `data`; the response has its own transport again."""
        if self._cycle.transport is self:
            self._cycle.transport = self._transport
        data, self._head = self._head + data, b""
        if data and not self._transport.is_closing():  # uvloop would raise an error
            self._transport.write(data)


def protocol_factory(server: Any) -> Callable[[], asyncio.Protocol] | None:
    """Return a function that makes the protocol of a connection like `startup` of uvicorn.

    None if connections cannot be limited: the protocol class is not one that is known here, or it
    lacks an attribute that the limits need.
    """
    config = server.config
    protocol = config.http_protocol_class
    own_names = _PROTOCOLS.get(getattr(protocol, "__name__", ""))
    cycle = getattr(sys.modules.get(protocol.__module__), "RequestResponseCycle", None)
    if own_names is None or not _uses(getattr(cycle, "__init__", None), _GUARDED_CYCLE_NAMES):
        return None

    def make() -> Any:
        return config.http_protocol_class(
            config=config, server_state=server.server_state, app_state=server.lifespan.state
        )

    try:
        made = make()
    except (AttributeError, TypeError):
        return None
    return make if all(hasattr(made, name) for name in (*_PROTOCOL_NAMES, *own_names)) else None


def sets_servers(startup: Callable[..., object]) -> bool:
    """Return True if `startup` of uvicorn sets `servers`, the asyncio servers that it starts."""
    return _uses(startup, ("servers",))


def _uses(function: Any, names: Iterable[str]) -> bool:
    """Return True if a function uses attributes of these names; so it need not be called."""
    code = getattr(function, "__code__", None)
    return code is not None and {*names} <= {*code.co_names}


def signalled_server() -> Any | None:
    """Return the server whose method handles SIGTERM in this process, None if there is none."""
    return getattr(signal.getsignal(signal.SIGTERM), "__self__", None)


def exit_check() -> Callable[[], bool] | None:
    """Return a function that returns True when the server of this process has to stop.

    uvicorn sets a flag when a signal arrives, but informs the application only after all responses
    are complete. None if no server with such a flag handles SIGTERM, or if the server informs the
    application itself (`drains_app`).
    """
    server = signalled_server()
    if server is None or getattr(server, "drains_app", False):
        return None
    if not hasattr(server, "should_exit"):
        report_fallback("the handler of SIGTERM is", "streams learn late that the server stops")
        return None
    return lambda: bool(getattr(server, "should_exit", True))


# Writes chunks of a response directly to uvicorn's transport.
#
# A live stream has many small chunks. With `send`, each one costs an ASGI message, the wrappers of
# the router and, with h11, a pass through its state machine: a third of the cost of a packet. A
# chunk in the middle of a chunked body changes no state there, so it can bypass them; the head of
# the response and the end of its body still use `send`. If anything is not as expected (another
# server, HTTP/1.0, a middleware, a slow peer), the writer returns False, and the caller uses
# `send`.

SEND = "coreason.send"
"""The key in the scope of a request for the original `send` of the server."""


def direct_writer(scope: Mapping[str, Any]) -> Callable[[bytes], bool] | None:
    """Return a function that writes a chunk after the head was sent, None if it is not possible.

    The function returns False, without writing anything, if the chunk must go through `send`.
    """
    cycle = response_cycle(scope.get(SEND))
    if cycle is None or not _is_chunked(cycle, scope):
        return None
    flow = cycle.flow

    def write_chunk(body: bytes) -> bool:
        if flow.write_paused or cycle.disconnected or cycle.response_complete or not body:
            return False
        cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        return True

    return write_chunk


def _is_chunked(cycle: Any, scope: Mapping[str, Any]) -> bool:
    if not cycle.response_started or scope["method"] == "HEAD":
        return False
    if hasattr(cycle, "chunked_encoding"):  # httptools
        return cycle.chunked_encoding is True
    # h11 sends a body of unknown length in chunks to every HTTP/1.1 peer.
    return bool(scope["http_version"] == "1.1")
