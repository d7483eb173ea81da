"""What an application offers over A2A."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coreason_client.a2a._grpc._address import grpc_url as checked_grpc_url
from coreason_client.a2a.types import AgentCard

from ...errors import ArgumentError
from ._ports import parse_address
from ._versions import VERSIONS

if TYPE_CHECKING:
    import grpc  # type: ignore[import-untyped]

__all__ = ["A2A", "settings_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class A2A:
    """How an agent is served over A2A.

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
