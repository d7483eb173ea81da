"""Writes chunks of a response directly to uvicorn's transport.

A live stream has many small chunks. With `send`, each one costs an ASGI message, the wrappers of
the router and, with h11, a pass through its state machine: a third of the cost of a packet. A chunk
in the middle of a chunked body changes no state there, so it can bypass them; the head of the
response and the end of its body still use `send`. If anything is not as expected (another server,
HTTP/1.0, a middleware, a slow peer), the writer returns False, and the caller uses `send`.
"""

from collections.abc import Callable
from typing import Any

from starlette.types import Scope

from .._internals import response_cycle

__all__ = ["SEND", "direct_writer"]

SEND = "coreason.send"
"""The key in the scope of a request for the original `send` of the server."""


def direct_writer(scope: Scope) -> Callable[[bytes], bool] | None:
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


def _is_chunked(cycle: Any, scope: Scope) -> bool:
    if not cycle.response_started or scope["method"] == "HEAD":
        return False
    if hasattr(cycle, "chunked_encoding"):  # httptools
        return cycle.chunked_encoding is True
    # h11 sends a body of unknown length in chunks to every HTTP/1.1 peer.
    return bool(scope["http_version"] == "1.1")
