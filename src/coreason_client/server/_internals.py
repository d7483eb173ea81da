"""All uses of undocumented names of uvicorn.

uvicorn documents how to run it, but not its connection and response objects.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .._fallback import report_fallback

__all__ = [
    "exit_check",
    "listening_servers",
    "protocol_factory",
    "response_cycle",
    "signalled_server",
]

_CYCLES = (
    ("uvicorn.protocols.http.h11_impl", "RequestResponseCycle"),
    ("uvicorn.protocols.http.httptools_impl", "RequestResponseCycle"),
)
_CYCLE_NAMES = ("disconnected", "flow", "response_complete", "response_started", "transport")
_PROTOCOLS = ("H11Protocol", "HttpToolsProtocol")
_PROTOCOL_NAMES = (
    *("client", "config", "cycle", "loop", "on_response_complete", "transport"),
    *("connection_lost", "connection_made", "data_received"),
)


def response_cycle(send: object) -> Any | None:
    """Return the uvicorn response object of a `send`, None for another server."""
    cycle: Any = getattr(send, "__self__", None)
    if type(cycle) not in _cycle_types():
        return None
    state = vars(cycle) if hasattr(cycle, "__dict__") else {}
    if all(map(state.__contains__, _CYCLE_NAMES)) and hasattr(cycle.flow, "write_paused"):
        return cycle
    _report_cycles()
    return None


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


def protocol_factory(server: Any) -> Callable[[], asyncio.Protocol] | None:
    """Return a function that makes the protocol of a connection like `startup` of uvicorn.

    None if connections cannot be limited: the protocol class is not from uvicorn, or lacks an
    attribute that the limits need.
    """
    config = server.config
    if getattr(config.http_protocol_class, "__name__", "") not in _PROTOCOLS:
        return None

    def make() -> Any:
        return config.http_protocol_class(
            config=config, server_state=server.server_state, app_state=server.lifespan.state
        )

    try:
        made = make()
        known = all(hasattr(made, name) for name in _PROTOCOL_NAMES)
    except (AttributeError, TypeError):
        known = False
    if known:
        return make
    report_fallback("the connections of uvicorn are", "max_connections and head_timeout are off")
    return None


def listening_servers(server: Any) -> list[Any]:
    """Return the asyncio servers that a uvicorn server has started."""
    servers = getattr(server, "servers", None)
    if servers is not None:
        return list(servers)
    report_fallback("the servers of uvicorn are", "asyncio accepts connections beyond the limit")
    return []


def signalled_server() -> Any | None:
    """Return the server whose method handles SIGTERM in this process, None if there is none."""
    return getattr(signal.getsignal(signal.SIGTERM), "__self__", None)


def exit_check() -> Callable[[], bool] | None:
    """Return a function that returns True when the server of this process has to stop.

    uvicorn sets a flag when a signal arrives, but informs the application only after all responses
    are complete. None if no server with such a flag handles SIGTERM.
    """
    server = signalled_server()
    if server is None:
        return None
    if not hasattr(server, "should_exit"):
        report_fallback("the handler of SIGTERM is", "streams learn late that the server stops")
        return None
    return lambda: bool(getattr(server, "should_exit", True))
