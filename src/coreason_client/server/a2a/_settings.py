"""The settings of an application that is served over A2A, and the address of its gRPC server."""

import errno
import ipaddress
import re
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from coreason_client.a2a._grpc._address import grpc_url as checked_grpc_url
from coreason_client.a2a.types import AgentCard

from ..._host_port import host_port
from ...errors import ArgumentError
from ._protocol import VERSIONS

if TYPE_CHECKING:
    import grpc  # type: ignore[import-untyped]


@dataclass(frozen=True, slots=True, kw_only=True)
class A2A:
    """The settings of an agent that is served over A2A.

    Attributes:
        card: describes the agent; by default it is made from its name and documentation. Required
            members that it lacks come from there too. The server replaces its interfaces and
            capabilities, and drops its signatures, which would no longer be valid.
        versions: the versions of the protocol that clients may use. A card for 1.0 alone has only
            the fields of 1.0; by default it also has those that clients of 0.3 read.
        extended_card: the card for clients with a key; without keys, for every client.
        grpc_address: the address of the gRPC server, such as "127.0.0.1:50051"; port 0 is any free
            port. None for no gRPC. It needs the extra `grpc`, and it starts with the lifespan.
        grpc_url: the address on the card, such as "agent.example:443", if it is another one.
        grpc_on_card: False leaves gRPC out of the card: some clients, such as google-adk, refuse a
            card with an interface at another port.
        repeats_answer: the last chunk of a streamed answer is the whole answer, without `append`.
            google-adk needs it: it takes that chunk for the answer. Clients that ignore `append`
            would show the answer twice.
        grpc_credentials: `grpc.ssl_server_credentials(...)` for TLS.
        grpc_allow_public: True to serve an agent without keys at a public address.
        streaming: clients may read the events of a task while it runs.
        push: clients may have the events of a task sent to a URL of theirs.
        allow_http_webhooks: such a URL may begin with http://, so that everybody on the way can
            read the events.
        allow_private_webhooks: such a URL may lead to this machine and to private networks. Allow
            it only if every client may reach everything there that this server can reach.
    """

    card: AgentCard | None = None
    versions: Sequence[str] = VERSIONS
    extended_card: AgentCard | None = None
    grpc_address: str | None = None
    grpc_url: str | None = None
    grpc_on_card: bool = True
    repeats_answer: bool = False
    grpc_credentials: "grpc.ServerCredentials | None" = None
    grpc_allow_public: bool = False
    streaming: bool = True
    push: bool = True
    allow_http_webhooks: bool = False
    allow_private_webhooks: bool = False

    def __post_init__(self) -> None:
        if not self.versions or not set(self.versions) <= set(VERSIONS):
            known = " and ".join(VERSIONS)
            raise ArgumentError("versions", f"must have one or both of {known}", self.versions)
        if self.grpc_address is not None:
            parse_address(self.grpc_address)
        if self.grpc_url is not None:
            checked_grpc_url(self.grpc_url, argument="grpc_url")


def settings_of(given: object) -> A2A:
    """Return the settings for the argument `a2a` of an application.

    Raises:
        ArgumentError: it is something else than True, a card or settings.
    """
    if given is True:
        return A2A()
    if isinstance(given, AgentCard):
        return A2A(card=given)
    if isinstance(given, A2A):
        return given
    raise ArgumentError("a2a", "must be True, an AgentCard or an A2A object", given)


# The address at which gRPC is served

_FORM: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+)):(?P<port>\d+)")
_LAST_PORT: Final = 65_535
# A host name may have an address of a family that this machine does not support.
_NO_SUCH_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


class GrpcAddress(NamedTuple):
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


def parse_address(text: object, argument: str = "grpc_address") -> GrpcAddress:
    """Return an address such as `127.0.0.1:50051`, `[::1]:50051` or `localhost:0`.

    Raises:
        ArgumentError: it has another form; `argument` names it.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) and text.isascii() else None
    if found is None or len(found["port"]) > 5 or int(found["port"]) > _LAST_PORT:
        raise ArgumentError(argument, "must be host:port, such as 127.0.0.1:50051", text)
    return GrpcAddress(found["v6"] or found["name"], int(found["port"]))


def check_free(address: GrpcAddress, *, shared: bool) -> None:
    """Check that this process can listen at an address.

    A `shared` one may be in use by other processes that share it, too. gRPC itself does not report
    why it cannot listen, and with a host name it ignores an address that is in use.

    Raises:
        OSError: another process listens there, or the host has no such address.
    """
    if address.port:
        for sock in _bind(address, shared=shared):
            sock.close()


def reserve(address: GrpcAddress) -> list[socket.socket]:
    """Reserve an address for processes that share it; close the sockets to release it.

    Raises:
        OSError: another process listens there, or the host has no such address.
    """
    check_free(address, shared=False)
    return _bind(address, shared=True)


def _bind(address: GrpcAddress, *, shared: bool) -> list[socket.socket]:
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
        if sys.platform != "win32":
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


class GrpcInterface(NamedTuple):
    """The address of the server, and the one that clients use if it is another one."""

    bound: GrpcAddress
    url: str | None

    def url_for(self, http_url: str | None) -> str:
        """Return the address for the card, as `host:port`.

        A server that listens at all addresses has the host of `http_url`, the URL of the
        application over HTTP, under which clients have reached it.
        """
        if self.url is not None:
            return self.url
        host = urlsplit(http_url or "").hostname
        if self.bound.is_wildcard and host:
            return str(GrpcAddress(host, self.bound.port))
        return str(self.bound)
