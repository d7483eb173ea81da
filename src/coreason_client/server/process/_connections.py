"""Open connections: how many there may be, and how long each may take to send a request head.

A connection is *waiting* while no request of it is being answered: it is new, it has sent a part of
a head, or it is kept alive. When there are as many connections as there may be, the one that has
waited longest is closed for a new one, so silent connections never keep others out.
"""

import asyncio
import logging
from typing import Any, ClassVar

import h11

from ._strict_h11 import StrictConnection

__all__ = ["Connections", "guarded"]

logger = logging.getLogger("coreason_client.server")

# llhttp has no limit of its own; h11 stops at 16 KiB.
_LONGEST_HEAD = 128 * 1024


class Connections:
    """The connections of one server."""

    def __init__(self, most: int | None, head_timeout: float) -> None:
        self.most = most
        self.head_timeout = head_timeout
        self._reserved = 0  # accepted, and not connected to a protocol yet
        self._open: set[Any] = set()
        self._waiting: dict[Any, None] = {}  # in the order in which they began to wait

    def __len__(self) -> int:
        return len(self._open) + self._reserved

    def reserve(self) -> bool:
        """Count a connection that was just accepted; return False if there is no room for it."""
        if self.most is not None and len(self) >= self.most and not self.close_longest_waiting():
            return False
        self._reserved += 1
        return True

    def release(self) -> None:
        """Stop counting a reserved connection, which was not established."""
        self._reserved -= 1

    def close_longest_waiting(self) -> bool:
        """Close the connection that has waited longest; return False if none waits."""
        for connection in self._waiting:
            self.forget(connection)
            connection.transport.abort()
            return True
        return False

    def add(self, connection: Any) -> None:
        """Record that a connection is open; it waits."""
        self._reserved = max(self._reserved - 1, 0)  # at a Unix socket none is reserved
        self._open.add(connection)
        self._waiting[connection] = None

    def waits(self, connection: Any) -> None:
        """Record that a connection has no request; the last one to do so is closed last."""
        if connection in self._open:
            self._waiting.setdefault(connection)

    def works(self, connection: Any) -> None:
        """Record that a connection has a request, so it is not closed for another one."""
        self._waiting.pop(connection, None)

    def forget(self, connection: Any) -> None:
        """Record the end of a connection."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)


def guarded(base: Any, connections: Connections) -> Any:
    """Return a protocol class of uvicorn that keeps to the limits of these connections.

    `base` must be one that `protocol_factory` of `_internals` has accepted.
    """
    return type(f"Guarded{base.__name__}", (_Guard, base), {"base": base, "all": connections})


class _Guard:
    """What a connection does in addition to `base`, a protocol class of uvicorn."""

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
        self._has_head()
        self.all.forget(self)
        self.base.connection_lost(self, exc)

    def data_received(self, data: bytes) -> None:
        self.base.data_received(self, data)
        if self.transport.get_protocol() is not self:  # a WebSocket has taken over
            self._has_head()
            self.all.forget(self)
        elif not self._has_request():
            self._expect_head(len(data))

    def on_response_complete(self) -> None:
        self.base.on_response_complete(self)
        # A pipelined request may have begun; else uvicorn's keep-alive timeout runs.
        self._has_request()

    def _has_request(self) -> bool:
        if self.cycle is None or self.cycle.response_complete:
            self.all.waits(self)
            return False
        self._has_head()
        self.all.works(self)
        return True

    def _expect_head(self, received: int = 0) -> None:
        if self.transport.is_closing():
            return
        self._head_bytes += received
        if self._head_bytes > _LONGEST_HEAD:
            self._give_up("its head is too long")
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(
                self.all.head_timeout, self._give_up, "its head did not come in time"
            )

    def _has_head(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self, reason: str) -> None:
        logger.debug("a connection from %s was closed: %s", self.client, reason)
        self.transport.abort()
