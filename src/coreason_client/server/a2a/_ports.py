"""The address at which gRPC is served: its text form, and whether it can be used."""

import errno
import ipaddress
import re
import socket
from typing import Final, NamedTuple

from ..._host_port import host_port
from ...errors import ArgumentError

__all__ = ["Address", "check_free", "parse_address", "reserve"]

_FORM: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+)):(?P<port>\d+)")
_LAST_PORT: Final = 65_535
# A host name may have an address of a family that this machine does not support.
_NO_SUCH_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


class Address(NamedTuple):
    """A host, by name or number, and a port; port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_port(self.host, self.port)

    @property
    def is_wildcard(self) -> bool:
        """True if it stands for all addresses of this machine."""
        return self.host in ("0.0.0.0", "::")  # noqa: S104 - only compared

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: object, argument: str = "grpc_address") -> Address:
    """Return an address such as `127.0.0.1:50051`, `[::1]:50051` or `localhost:0`.

    Raises:
        ArgumentError: it has another form; `argument` names it.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) and text.isascii() else None
    if found is None or len(found["port"]) > 5 or int(found["port"]) > _LAST_PORT:
        raise ArgumentError(argument, "must be host:port, such as 127.0.0.1:50051", text)
    return Address(found["v6"] or found["name"], int(found["port"]))


def check_free(address: Address, *, shared: bool) -> None:
    """Check that this process can listen at an address.

    A `shared` one may be in use by other processes that share it, too. gRPC itself does not report
    why it cannot listen, and with a host name it ignores an address that is in use.

    Raises:
        OSError: another process listens there, or the host has no such address.
    """
    if address.port:
        for sock in _bind(address, shared=shared):
            sock.close()


def reserve(address: Address) -> list[socket.socket]:
    """Reserve an address for processes that share it; close the sockets to release it.

    Raises:
        OSError: another process listens there, or the host has no such address.
    """
    check_free(address, shared=False)
    return _bind(address, shared=True)


def _bind(address: Address, *, shared: bool) -> list[socket.socket]:
    bound: list[socket.socket] = []
    refused: OSError | None = None
    try:
        for family, _, _, _, name in socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            try:
                bound.append(_bound(family, name, shared=shared))
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                refused = error
        if refused is not None and not bound:
            raise refused
    except OSError as error:
        for sock in bound:
            sock.close()
        message = f"the gRPC server cannot listen at {address}: {error.strerror}"
        raise OSError(error.errno, message) from error
    return bound


def _bound(family: int, name: object, *, shared: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(name)  # type: ignore[arg-type]
    except BaseException:
        sock.close()
        raise
    return sock
