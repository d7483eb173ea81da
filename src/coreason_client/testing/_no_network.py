"""`no_network`: connections and look-ups that would leave this machine raise an error.

It uses an audit hook (PEP 578), which sees every socket of the process, also those of threads and
of code that has imported `socket` before. Python cannot remove such a hook; without a guard it
returns at once.
"""

import ipaddress
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import CoreasonError

_lock = threading.Lock()
_guards = 0
_installed = False


class NetworkBlocked(CoreasonError):
    """A connection or a look-up of a name was refused by `no_network`; `address` is its target.

    It is no `OSError`, so that nothing takes it for a failed connection and tries again.
    """

    def __init__(self, address: str) -> None:
        super().__init__(
            f"no_network() has blocked the network access to {address}; only loopback addresses "
            "and Unix sockets are allowed here"
        )
        self.address = address

    def __reduce__(self) -> tuple[type["NetworkBlocked"], tuple[str]]:
        return type(self), (self.address,)


@contextmanager
def no_network() -> Iterator[None]:
    """Raise an error for network access while the block runs, in every thread.

    It covers connections and datagrams of Python sockets, with asyncio and trio too, and look-ups
    of names. Loopback addresses, `localhost` and Unix sockets are allowed. Blocks can be nested.
    It does not cover child processes, and libraries that open sockets without Python: `uvloop` and
    `grpcio`.

    Raises:
        NetworkBlocked: raised by the call that would have used the network.
    """
    global _guards, _installed
    with _lock:
        if not _installed:
            sys.addaudithook(_hook)
            _installed = True
        _guards += 1
    try:
        yield
    finally:
        with _lock:
            _guards -= 1


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _guards and event.startswith("socket."):
        check = _CHECKS.get(event)
        if check is not None:
            check(*arguments)


def _check_connect(sock: socket.socket, address: Any) -> None:
    """Check the target of a connection."""
    try:
        _check_datagram(sock, address)
    except NetworkBlocked:
        sock.close()  # as after an OSError, which is what callers of `connect` prepare for
        raise


def _check_datagram(sock: socket.socket, address: Any) -> None:
    """Check the target of a datagram."""
    if sock.family in (socket.AF_INET, socket.AF_INET6) and isinstance(address, tuple):
        host = address[0]
        if isinstance(host, str) and not _is_local(host):
            raise NetworkBlocked(_shown(host, address[1]))


def _check_name(host: object, port: object = None, *_: object) -> None:
    """Check a look-up of a name; an IP address is not looked up."""
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if isinstance(name, str) and not (_ip(name) or _is_local(name)):
        raise NetworkBlocked(_shown(name, port))


def _check_address(address: object, *_: object) -> None:
    """Check a look-up of the name of an address."""
    host = address[0] if isinstance(address, tuple) else address
    if isinstance(host, str) and not _is_local(host):
        raise NetworkBlocked(_shown(host, None))


_CHECKS: dict[str, Callable[..., None]] = {
    "socket.connect": _check_connect,
    "socket.sendto": _check_datagram,
    "socket.sendmsg": _check_datagram,
    "socket.getaddrinfo": _check_name,
    "socket.gethostbyname": _check_name,
    "socket.gethostbyaddr": _check_address,
    "socket.getnameinfo": _check_address,
}


def _ip(host: str) -> "ipaddress.IPv4Address | ipaddress.IPv6Address | None":
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _is_local(host: str) -> bool:
    """Return True if a host is this machine; an empty one and 0.0.0.0 are, too."""
    address = _ip(host)
    if address is None:
        name = host.rstrip(".").lower()
        return name in ("", "localhost", "localhost.localdomain") or name.endswith(".localhost")
    mapped = getattr(address, "ipv4_mapped", None)
    return any(ip.is_loopback or ip.is_unspecified for ip in (address, mapped) if ip is not None)


def _shown(host: str, port: object) -> str:
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
