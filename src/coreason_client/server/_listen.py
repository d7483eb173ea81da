"""Sockets that listen, as a server of streams needs them."""

import socket

__all__ = ["listen"]

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 takes a free one.

    Small packets leave at once. asyncio sees to that only for sockets whose protocol is spelt out,
    which those that uvicorn makes for its workers are not: there each packet would wait for the
    acknowledgement of the one before it, up to 40 ms.

    Raises:
        OSError: the address cannot be listened at.
    """
    [(family, kind, _, _, address), *_] = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sock = socket.socket(family, kind, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted ones inherit it
        sock.bind(address)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
