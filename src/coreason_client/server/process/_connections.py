"""Open connections: a limit on their number, and a timeout for the head of each request.

A connection is *waiting* while none of its requests is being answered: it is new, it has sent a
part of a head, or it is kept alive. At the limit, the connection that has waited longest is closed
for a new one, so idle connections cannot keep others out.

While the server drains, each response says `Connection: close`, and connections between two
requests are closed at the start. Otherwise the next request of a pooled connection would reach
this process again, which refuses it, and never the replica that a balancer would choose.
"""

import asyncio
import logging
import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar

import h11

# A stricter h11: it refuses requests that a proxy in front may read differently.
#
# If a proxy and a server read a head differently, an attacker can smuggle a second request past the
# proxy. RFC 9112 allows a
# server to accept a bare LF (section 2.2) and `Transfer-Encoding` together with `Content-Length`
# (section 6.3), and h11 accepts both. httptools refuses both.

_END_OF_HEAD = re.compile(rb"\n\r?\n")
_BARE_LF = re.compile(rb"(?:^|[^\r])\n")


def has_bare_lf(data: bytes) -> bool:
    """Return True if a line of the head at the start of `data` ends without a carriage return."""
    end = _END_OF_HEAD.search(data)
    return _BARE_LF.search(data, 0, end.end() if end else len(data)) is not None


def has_two_lengths(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return True if the headers, with lower-case names, give the length of the body twice."""
    return {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}


class StrictConnection(h11.Connection):
    """A server connection; it keeps the bytes of a head until h11 has parsed it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head = bytearray()

    def receive_data(self, data: bytes) -> None:
        """Receive bytes from the network."""
        if self.their_state is h11.IDLE:
            self._head += data
        super().receive_data(data)

    def start_next_cycle(self) -> None:
        """Prepare for the next request; some of its bytes may have arrived already."""
        super().start_next_cycle()
        self._head = bytearray(self.trailing_data[0])

    def next_event(self) -> Any:
        """Return the next event.

        Raises:
            h11.RemoteProtocolError: the bytes are not HTTP, or are ambiguous.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            head, self._head = bytes(self._head), bytearray()
            if has_bare_lf(head):
                raise h11.RemoteProtocolError("a line of the head ends with a bare LF")
            if has_two_lengths(event.headers):
                raise h11.RemoteProtocolError("Transfer-Encoding together with Content-Length")
        return event


logger = logging.getLogger("coreason_client.server")

# llhttp has no limit; that of h11 is 16 KiB.
_MAX_HEAD_BYTES = 128 * 1024
_CLOSE = (b"connection", b"close")


class Connections:
    """The connections of one server."""

    def __init__(self, most: int | None, head_timeout: float) -> None:
        self.most = most
        self.head_timeout = head_timeout
        self._reserved = 0
        self._open: set[Any] = set()
        self._waiting: dict[Any, None] = {}  # in the order in which they began to wait
        self.draining = False

    def __len__(self) -> int:
        return len(self._open) + self._reserved

    @property
    def has_reserved(self) -> bool:
        """True if connections were accepted and are not yet connected to a protocol."""
        return self._reserved > 0

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

    def drain(self) -> None:
        """Close each connection after its current response, or now if it has had its last one."""
        self.draining = True
        for connection in list(self._open):
            connection.leave()


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
    shutdown: Any
    transport: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.base.__init__(self, *args, **kwargs)
        if hasattr(self, "conn"):  # h11
            size = self.config.h11_max_incomplete_event_size
            limit = {} if size is None else {"max_incomplete_event_size": size}
            self.conn = StrictConnection(h11.SERVER, **limit)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._head_complete = False  # httptools

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
        elif self.all.draining:
            self._close_after_response()

    def on_response_complete(self) -> None:
        self.base.on_response_complete(self)
        # A pipelined request may have begun; otherwise uvicorn's keep-alive timeout runs.
        self._has_request()

    def leave(self) -> None:
        """Close the connection after its current response, or now if it waits for a next request.

        A connection that has sent a part of a head, or nothing yet, gets one response.
        """
        if self._has_request():
            self._close_after_response()
        elif self.cycle is not None and not self._head_bytes:
            self.shutdown()

    # httptools calls `on_header` for the trailers after a chunked body too, and uvicorn adds them
    # to the headers: a proxy has not checked them. h11 keeps them apart, and uvicorn ignores them.

    def on_message_begin(self) -> None:
        self._head_complete = False
        self.base.on_message_begin(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_complete:
            self.base.on_header(self, name, value)

    def on_headers_complete(self) -> None:
        self._head_complete = True
        self.base.on_headers_complete(self)

    def _close_after_response(self) -> None:
        # With pipelining, this is the last request that has been received.
        cycle = self.cycle
        cycle.keep_alive = False
        if cycle.response_started:
            if not isinstance(cycle.transport, _LastResponse):
                cycle.transport = _LastResponse(cycle.transport, self.loop)
        elif _CLOSE not in cycle.default_headers:
            cycle.default_headers = [*cycle.default_headers, _CLOSE]

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


class _LastResponse:
    """The transport of a response whose head was sent before it became the last one.

    Its head does not say `Connection: close`. So the end of the body and the end of the connection
    are sent in one segment: a client that has the one has the other, and sends nothing in between.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._cork(1)
        self._transport.write(data)
        self._loop.call_soon(self._uncork)

    def close(self) -> None:
        transport = self._transport
        if not (transport.get_write_buffer_size() or self._has_tls):
            with suppress(OSError), self._socket() as sock:
                sock.shutdown(socket.SHUT_WR)
        transport.close()

    @property
    def _has_tls(self) -> bool:
        return self._transport.get_extra_info("ssl_object") is not None

    def _uncork(self) -> None:
        """Send what was written; with the end of the connection, if that has followed.

        With TLS, a message says that it has ended, and the connection waits for the answer.
        """
        if self._has_tls or not self._transport.is_closing():
            self._cork(0)

    def _cork(self, value: int) -> None:
        if (option := getattr(socket, "TCP_CORK", None)) is not None:  # Linux
            with suppress(OSError), self._socket() as sock:  # a Unix socket has no such option
                sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def _socket(self) -> socket.socket:
        return socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno()))
