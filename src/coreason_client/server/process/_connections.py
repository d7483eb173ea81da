"""Open connections: a limit on their number, and a timeout for the head of each request.

A connection is *waiting* while none of its requests is being answered: it is new, it has sent a
part of a head, or it is kept alive. At the limit, the connection that has waited longest is closed
for a new one, so idle connections cannot keep others out.
"""

import asyncio
import logging
from typing import Any, ClassVar

import h11

from ._strict_h11 import StrictConnection

__all__ = ["Connections", "guarded"]

logger = logging.getLogger("coreason_client.server")

# llhttp has no limit; that of h11 is 16 KiB.
_MAX_HEAD_BYTES = 128 * 1024


class Connections:
    """The connections of one server."""

    def __init__(self, most: int | None, head_timeout: float) -> None:
        self.most = most
        self.head_timeout = head_timeout
        self._reserved = 0  # accepted, but not yet connected to a protocol
        self._open: set[Any] = set()
        self._waiting: dict[Any, None] = {}  # in the order in which they began to wait

    def __len__(self) -> int:
        return len(self._open) + self._reserved

    def reserve(self) -> bool:
        """Count a connection that was just accepted; return False if the limit is reached."""
        if self.most is not None and len(self) >= self.most and not self.close_longest_waiting():
            return False
        self._reserved += 1
        return True

    def release(self) -> None:
        """Stop counting a reserved connection that was not established."""
        self._reserved -= 1

    def close_longest_waiting(self) -> bool:
        """Close the connection that has waited longest; return False if none waits."""
        for connection in self._waiting:
            self.forget(connection)
            connection.transport.abort()
            return True
        return False

    def add(self, connection: Any) -> None:
        """Record that a connection is open and waiting."""
        self._reserved = max(self._reserved - 1, 0)  # with a Unix socket none is reserved
        self._open.add(connection)
        self._waiting[connection] = None

    def mark_waiting(self, connection: Any) -> None:
        """Record that a connection has no request; it is closed after those that wait longer."""
        if connection in self._open:
            self._waiting.setdefault(connection)

    def mark_busy(self, connection: Any) -> None:
        """Record that a connection has a request; it will not be closed for another one."""
        self._waiting.pop(connection, None)

    def forget(self, connection: Any) -> None:
        """Record the end of a connection."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)


def guarded(base: Any, connections: Connections) -> Any:
    """Return a subclass of a uvicorn protocol class that applies the limits of `connections`.

    `base` must be accepted by `protocol_factory` of `_internals`.
    """
    return type(f"Guarded{base.__name__}", (_Guard, base), {"base": base, "all": connections})


class _Guard:
    """The limits of a connection, mixed into `base`, a protocol class of uvicorn."""

    base: ClassVar[Any]
    all: ClassVar[Connections]
    # Attributes of the base.
    config: Any
    conn: Any
    cycle: Any
    client: Any
    loop: asyncio.AbstractEventLoop
    transport: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.base.__init__(self, *args, **kwargs)
        if hasattr(self, "conn"):  # h11
            size = self.config.h11_max_incomplete_event_size
            limit = {} if size is None else {"max_incomplete_event_size": size}
            self.conn = StrictConnection(h11.SERVER, **limit)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        self.base.connection_made(self, transport)
        self.all.add(self)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_received()
        self.all.forget(self)
        self.base.connection_lost(self, exc)

    def data_received(self, data: bytes) -> None:
        self.base.data_received(self, data)
        if self.transport.get_protocol() is not self:  # a WebSocket protocol has taken over
            self._head_received()
            self.all.forget(self)
        elif not self._has_request():
            self._expect_head(len(data))

    def on_response_complete(self) -> None:
        self.base.on_response_complete(self)
        # A pipelined request may have begun; otherwise uvicorn's keep-alive timeout runs.
        self._has_request()

    def _has_request(self) -> bool:
        if self.cycle is None or self.cycle.response_complete:
            self.all.mark_waiting(self)
            return False
        self._head_received()
        self.all.mark_busy(self)
        return True

    def _expect_head(self, received: int = 0) -> None:
        if self.transport.is_closing():
            return
        self._head_bytes += received
        if self._head_bytes > _MAX_HEAD_BYTES:
            self._abort("the head of a request is too long")
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(
                self.all.head_timeout, self._abort, "the head of a request did not arrive in time"
            )

    def _head_received(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _abort(self, reason: str) -> None:
        logger.debug("a connection from %s was closed: %s", self.client, reason)
        self.transport.abort()
