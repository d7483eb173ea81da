"""Write a chunk of a response straight to uvicorn's transport.

A live stream is many small chunks, and on their way through `send` each costs an ASGI message, the
wrappers of the router and, with h11, a pass through its state machine: a third of what a packet
costs. A chunk in the middle of a chunked body changes no state there, so it can be written beside
them; the head of the response and the end of its body still take the usual way. Where anything is
not as expected (another server, HTTP/1.0, a middleware between, a peer that reads slowly), `write`
says no, and the caller uses `send`.
"""

from collections.abc import Callable
from typing import Any

from starlette.types import Scope

from .._internals import response_cycle

__all__ = ["SEND", "direct_writer"]

SEND = "coreason.send"
"""Where the application leaves the server's own `send` in the scope of a request."""


def direct_writer(scope: Scope) -> Callable[[bytes], bool] | None:
    """Return what writes a chunk, once the head of the response is sent; None if nothing can.

    It returns False without having written anything when the chunk must go through `send`.
    """
    cycle = response_cycle(scope.get(SEND))
    if cycle is None or not _is_chunked(cycle, scope):
        return None
    flow, write = cycle.flow, cycle.transport.write

    def write_chunk(body: bytes) -> bool:
        if flow.write_paused or cycle.disconnected or cycle.response_complete or not body:
            return False
        write(b"%x\r\n%b\r\n" % (len(body), body))
        return True

    return write_chunk


def _is_chunked(cycle: Any, scope: Scope) -> bool:
    if not cycle.response_started or scope["method"] == "HEAD":
        return False
    if hasattr(cycle, "chunked_encoding"):  # httptools
        return cycle.chunked_encoding is True
    # h11 frames a body of unknown length in chunks for every peer that speaks HTTP/1.1.
    return bool(scope["http_version"] == "1.1")
