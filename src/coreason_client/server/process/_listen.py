"""Listening sockets: how they are opened, how connections are accepted, how many there may be."""

import asyncio
import errno
import logging
import os
import socket
import ssl
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import ArgumentError
from ..observe._log_lines import ThrottledLine
from ._connections import Connections

# The limit of file descriptors, and the share of it for connections.

_MAX_LIMIT = 1 << 20  # some containers allow a thousand times more, which no process needs
_RESERVED = 64  # the listener, the event loop, the store, files
_MIN_CONNECTIONS = 8


def descriptor_limit() -> int | None:
    """Return how many descriptors this process may open, None if there is no limit."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard one, which needs no privilege."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = _MAX_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _MAX_LIMIT)
    if wanted > soft:
        with suppress(OSError, ValueError):  # macOS has a lower limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def default_max_connections(limit: int | None) -> int | None:
    """Return the default of max_connections for a limit of descriptors, None for no limit.

    Half of the descriptors without a reserve: an agent that answers on a connection usually has
    another connection to a model.
    """
    return None if limit is None else max(_MIN_CONNECTIONS, (limit - _RESERVED) // 2)


# Accepts connections within a limit, without a busy loop when descriptors run out.
#
# asyncio accepts up to 2048 connections before the first of them reaches a protocol, and when
# descriptors run out it logs a traceback for each connection that it could not accept.

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


UDS_MODE = 0o660
"""The permissions of a Unix socket: its owner and its group may connect."""

_BACKLOG = 2048
# A host name may have an address of a family that this machine does not support.
_NO_SUCH_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at `host` and `port`; port 0 chooses a free port.

    Small packets are sent at once (TCP_NODELAY). asyncio sets this only for sockets with an
    explicit protocol, and the sockets that uvicorn makes for its workers have none: there each
    packet would wait up to 40 ms for the acknowledgement of the previous one.

    Raises:
        OSError: the socket cannot listen at the address.
    """
    family, address = _addresses(host, port)[0]
    return _listening(family, address)


def listen_all(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of a host, such as 127.0.0.1 and ::1 for localhost.

    All have the same port; port 0 chooses a free one.

    Raises:
        OSError: a socket cannot listen at one of the addresses.
    """
    sockets: list[socket.socket] = []
    refused: OSError | None = None
    try:
        for family, address in _addresses(host, port):
            chosen = sockets[0].getsockname()[1] if sockets else port
            full_address = (address[0], chosen, *address[2:])
            try:
                sockets.append(_listening(family, full_address, one_family=True))
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                refused = error
        if refused is not None and not sockets:
            raise refused
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


_Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


def _addresses(host: str, port: int) -> Sequence[tuple[socket.AddressFamily, _Address]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _listening(
    family: socket.AddressFamily, address: Sequence[object], *, one_family: bool = False
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there two processes could listen at the same address
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
        if one_family and family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(tuple(address))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def listen_unix(path: str | os.PathLike[str], mode: int = UDS_MODE) -> socket.socket:
    """Return a Unix socket that listens at a path; `mode` says who may connect.

    A socket that a dead process has left there is replaced; anything else is not.

    Raises:
        ArgumentError: the mode is not one, there is something other than a socket at the path, or
            this is Windows, where Python has no Unix sockets.
        OSError: another process listens there, or the socket cannot be created.
    """
    if sys.platform == "win32":
        raise ArgumentError("uds", "is not possible on Windows")
    if not 0 <= mode <= 0o777:
        raise ArgumentError("uds_mode", "must be permissions from 0 to 0o777", mode)
    file = Path(path)
    _remove_stale(file)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)  # nobody else may connect before the permissions are set
        try:
            sock.bind(str(file))
        finally:
            os.umask(before)
        file.chmod(mode)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def remove_unix(path: str | os.PathLike[str]) -> None:
    """Remove the file of a Unix socket, once nobody listens on it."""
    with suppress(OSError, ArgumentError):  # another process listens there by now
        _remove_stale(Path(path))


def _remove_stale(file: Path) -> None:
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return
    if sys.platform == "win32" or not stat.S_ISSOCK(mode):
        raise ArgumentError("uds", f"{file}: there is something other than a socket at this path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(file))
        except ConnectionRefusedError:
            file.unlink(missing_ok=True)
            return
        except (FileNotFoundError, TimeoutError, BlockingIOError):
            pass  # removed meanwhile, or its queue is full
    if file.exists():
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), str(file))
