"""Sockets that listen, as a server of streams needs them."""

import errno
import socket
from collections.abc import Sequence

__all__ = ["listen", "listen_all"]

_BACKLOG = 2048
# A name may have an address of a family that this machine does not have.
_NO_SUCH_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 takes a free one.

    Small packets leave at once. asyncio sees to that only for sockets whose protocol is spelt out,
    which those that uvicorn makes for its workers are not: there each packet would wait for the
    acknowledgement of the one before it, up to 40 ms.

    Raises:
        OSError: the address cannot be listened at.
    """
    family, address = _addresses(host, port)[0]
    return _listening(family, address)


def listen_all(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of a host, such as 127.0.0.1 and ::1 for localhost.

    All have the same port; port 0 takes one that is free.

    Raises:
        OSError: one of the addresses cannot be listened at.
    """
    sockets: list[socket.socket] = []
    refused: OSError | None = None
    try:
        for family, address in _addresses(host, port):
            chosen = sockets[0].getsockname()[1] if sockets else port
            place = (address[0], chosen, *address[2:])
            try:
                sockets.append(_listening(family, place, one_family=True))
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
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted ones inherit it
        if one_family and family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(tuple(address))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
