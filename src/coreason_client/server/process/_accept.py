"""Accepts connections within a limit, without a busy loop when descriptors run out.

asyncio accepts up to 2048 connections before the first of them reaches a protocol, and when
descriptors run out it logs a traceback for each connection that it could not accept.
"""

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable

from ..observe._throttled_lines import ThrottledLine
from ._connections import Connections
from ._descriptors import descriptor_limit

__all__ = ["Listener"]

logger = logging.getLogger("coreason_client.server")

_AT_ONCE = 16
_PAUSE = 0.1  # seconds after an accept failed
# At the limit, a connection may make way that was accepted just before and is not connected to its
# protocol yet; that takes two turns of the event loop, more only with TLS.
_ADMIT_TRIES = 4
_NO_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listener:
    """A listening socket on the running event loop; it replaces an `asyncio.Server`."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        connections: Connections,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._protocol = protocol
        self._connections = connections
        self._tls = tls
        self._connecting: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.TimerHandle | None = None
        self._full, self._failed = ThrottledLine(), ThrottledLine()
        sock.setblocking(False)
        self._resume()

    @classmethod
    def take_over(
        cls,
        server: asyncio.Server,
        protocol: Callable[[], asyncio.Protocol],
        connections: Connections,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> "list[Listener]":
        """Close an asyncio server and listen on its sockets instead."""
        socks = [socket.socket(fileno=os.dup(sock.fileno())) for sock in server.sockets]
        server.close()
        return [cls(sock, protocol, connections, tls=tls) for sock in socks]

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The listening socket, like `asyncio.Server.sockets`."""
        return () if self._sock.fileno() < 0 else (self._sock,)

    def close(self) -> None:
        """Stop listening; connections stay open."""
        if self._sock.fileno() < 0:
            return
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()

    async def wait_closed(self) -> None:
        """Wait for handshakes in progress."""
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _resume(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._admit(sock)

    def _admit(self, sock: socket.socket, tries: int = _ADMIT_TRIES) -> None:
        if not self._connections.reserve():
            if tries and self._connections.has_reserved:
                self._loop.call_soon(self._admit, sock, tries - 1)
                return
            sock.close()
            if (suffix := self._full.suffix()) is not None:
                logger.warning(
                    "a new connection was closed at once: %d are open, each with a request%s",
                    *(len(self._connections), suffix),
                )
            return
        sock.setblocking(False)
        task = self._loop.create_task(self._connect(sock))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, sock: socket.socket) -> None:
        timeout = None if self._tls is None else self._connections.head_timeout
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, sock, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except OSError as error:  # the handshake failed, or the client has disconnected
            logger.debug("a connection was not established: %s", error)
            self._connections.release()
            sock.close()

    def _pause(self, error: OSError) -> None:
        """Accept nothing for a moment; the operating system queues new connections meanwhile."""
        self._loop.remove_reader(self._sock)
        self._resuming = self._loop.call_later(_PAUSE, self._resume)
        if error.errno in _NO_RESOURCES:
            for _ in range(_AT_ONCE):
                self._connections.close_longest_waiting()
        if (suffix := self._failed.suffix()) is not None:
            logger.error(
                "cannot accept connections: %s; %d are open, and this process may open %s files; "
                "retrying%s",
                *(error.strerror, len(self._connections), descriptor_limit() or "any", suffix),
            )
