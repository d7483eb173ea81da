"""The cards of an application: the public one and the extended one."""

from datetime import UTC, datetime
from typing import Any, Final

from coreason_client.a2a.errors import (
    ExtendedAgentCardNotConfiguredError,
    UnsupportedOperationError,
)
from coreason_client.a2a.types import AgentCard

from .._options import A2A_PATH as BASE
from ._card import (
    AgentDescription,
    CachedCard,
    Interface,
    completed_card,
    make_card,
    served_card,
)
from ._grpc_interface import GrpcInterface
from ._settings import A2A
from ._versions import V03, V10

__all__ = ["BASE", "Cards"]

_MAX_URLS: Final = 16  # under which the card was asked for


class Cards:
    """Makes the cards for the URL of the application."""

    def __init__(self, settings: A2A, agent: AgentDescription, *, with_keys: bool) -> None:
        card, extended = settings.card, settings.extended_card
        self._card = make_card(agent) if card is None else completed_card(card, agent)
        self._extended = None if extended is None else completed_card(extended, agent)
        self._streaming, self._push = settings.streaming, settings.push
        self._versions = tuple(settings.versions)
        self._with_keys = with_keys
        self._modified = datetime.now(UTC)
        self._cached: dict[str, CachedCard] = {}
        self._grpc: GrpcInterface | None = None
        self._http_url: str | None = None  # under which a card was last asked for over HTTP

    def set_grpc(self, interface: GrpcInterface | None) -> None:
        """Add the gRPC interface to the cards, or remove it."""
        self._grpc = interface
        self._modified = datetime.now(UTC)
        self._cached.clear()

    def public(self, url: str) -> CachedCard:
        """Return the card that everybody may read."""
        self._http_url = url
        cached = self._cached.get(url)
        if cached is None:
            if len(self._cached) >= _MAX_URLS:
                self._cached.clear()
            cached = self._cached[url] = CachedCard(self._served(self._card, url), self._modified)
        return cached

    def extended(self, url: str | None, version: str = V10) -> dict[str, Any]:
        """Return the card for clients with a key.

        A call of gRPC does not know the URL over HTTP. Then it is the one that was last used to ask
        for a card, and without one the card has only the gRPC interface.

        Raises:
            UnsupportedOperationError: there is none, and so the public card declares none.
            ExtendedAgentCardNotConfiguredError: the same in protocol version 0.3.
        """
        if self._extended is None:
            older = version == V03
            refusal = ExtendedAgentCardNotConfiguredError if older else UnsupportedOperationError
            raise refusal("The agent has no extended card.")
        self._http_url = url or self._http_url
        return self._served(self._extended, self._http_url)

    def _interfaces(self, url: str | None) -> list[Interface]:
        found = []
        if url is not None:
            found += [
                Interface(f"{url}{BASE}", binding, self._versions)
                for binding in ("JSONRPC", "HTTP+JSON")
            ]
        if self._grpc is not None:
            found.append(Interface(self._grpc.url_for(url), "GRPC", self._versions))
        return found

    def _served(self, card: AgentCard, url: str | None) -> dict[str, Any]:
        return served_card(
            card,
            self._interfaces(url),
            with_keys=self._with_keys,
            streaming=self._streaming,
            push=self._push,
            extended=self._extended is not None,
        )
