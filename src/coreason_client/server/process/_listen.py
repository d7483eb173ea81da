"""Listening sockets for servers of streams."""

import errno
import socket
from collections.abc import Sequence

__all__ = ["listen", "listen_all"]

_BACKLOG = 2048
# A host name may have an address of a family that this machine does not support.
_NO_SUCH_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 chooses a free port.

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
