"""Listening sockets for servers of streams."""

import errno
import os
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import ArgumentError

__all__ = ["UDS_MODE", "listen", "listen_all", "listen_unix", "remove_unix"]

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
        ArgumentError: the mode is not one, or there is something other than a socket at the path.
        OSError: another process listens there, or the socket cannot be created.
    """
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
    if not stat.S_ISSOCK(mode):
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
