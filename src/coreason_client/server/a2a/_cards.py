"""The cards of an application: made from the agent or given by its author; public and extended.

A client of 1.0 looks at `supportedInterfaces`, one of 0.3 at `url` and its companions. Both kinds
of fields fit into one object, because each ignores what it does not know.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from coreason_client.a2a.errors import (
    ExtendedAgentCardNotConfiguredError,
    UnsupportedOperationError,
)
from coreason_client.a2a.types import AgentCard

from .._options import A2A_PATH as BASE
from ..http._cursor import etag_of, is_known
from ._protocol import V03, V10, VERSIONS
from ._settings import A2A, GrpcInterface

_V03_CARD_VERSION: Final = "0.3.0"
_MODES: Final = ["text/plain"]
_MAX_AGE: Final = 300  # seconds
_BEARER: Final = "bearer"
# The members that a card must have, apart from its name and those that the server sets.
_REQUIRED: Final = (
    "description",
    "version",
    "default_input_modes",
    "default_output_modes",
    "skills",
)


class CardInterface(NamedTuple):
    """A URL with one of the bindings `JSONRPC`, `HTTP+JSON` and `GRPC`; `versions` it speaks."""

    url: str
    binding: str
    versions: Sequence[str]


@dataclass(frozen=True, slots=True)
class AgentDescription:
    """The facts about an agent that has no card."""

    name: str
    documentation: str | None
    version: str


def make_card(agent: AgentDescription) -> AgentCard:
    """Return a card for an agent that has none: its first paragraph of documentation describes it.

    The agent has one skill, because a card must have at least one.
    """
    paragraph = (agent.documentation or "").strip().partition("\n\n")[0]
    description = " ".join(paragraph.split()) or f"The agent {agent.name}."
    title = agent.name.replace("_", " ").strip() or "agent"
    skill = {"id": agent.name, "name": title, "description": description, "tags": ["chat"]}
    return AgentCard.model_validate(
        {
            "name": agent.name,
            "description": description,
            "version": agent.version,
            "defaultInputModes": _MODES,
            "defaultOutputModes": _MODES,
            "skills": [skill],
        }
    )


def completed_card(card: AgentCard, agent: AgentDescription) -> AgentCard:
    """Return a card with the required members that it lacks, from the card made for the agent."""
    made = make_card(agent)
    lacking = [name for name in _REQUIRED if not getattr(card, name)]
    return card.model_copy(update={name: getattr(made, name) for name in lacking})


def served_card(
    card: AgentCard,
    interfaces: Sequence[CardInterface],
    *,
    with_keys: bool,
    streaming: bool,
    push: bool,
    extended: bool,
) -> dict[str, Any]:
    """Return the JSON of a card with what this server really offers.

    The interfaces and the capabilities are those of the server, whatever the card says: a client
    that relies on them must not be disappointed. Signatures of the author are left out, because
    they do not hold for what is served.
    """
    served = card.dump()
    served.pop("signatures", None)
    capabilities = {
        **served.get("capabilities", {}),
        "streaming": streaming,
        "pushNotifications": push,
        "extendedAgentCard": extended,
    }
    served |= {"capabilities": capabilities, "supportedInterfaces": _interfaces(interfaces)}
    if with_keys and not served.get("securitySchemes"):
        served |= _bearer_security()
    return served | _older_fields(interfaces, extended=extended)


def _interfaces(interfaces: Sequence[CardInterface]) -> list[dict[str, str]]:
    return [
        {"url": one.url, "protocolBinding": one.binding, "protocolVersion": version}
        for version in VERSIONS
        for one in interfaces
        if version in one.versions
    ]


def _older_fields(interfaces: Sequence[CardInterface], *, extended: bool) -> dict[str, Any]:
    """Return the fields in which a client of 0.3 finds the interfaces."""
    older = [one for one in interfaces if V03 in one.versions]
    if not older:
        return {}
    return {
        "protocolVersion": _V03_CARD_VERSION,
        "url": older[0].url,
        "preferredTransport": older[0].binding,
        "additionalInterfaces": [{"url": one.url, "transport": one.binding} for one in older],
        "supportsAuthenticatedExtendedCard": extended,
    }


def _bearer_security() -> dict[str, Any]:
    # One object with the members of both versions; in 0.3, `type` and `scheme` describe it.
    scheme = {"type": "http", "scheme": _BEARER, "httpAuthSecurityScheme": {"scheme": _BEARER}}
    return {
        "securitySchemes": {_BEARER: scheme},
        "securityRequirements": [{"schemes": {_BEARER: {"list": []}}}],
        "security": [{_BEARER: []}],
    }


class ServedCard:
    """The body of a card and the headers with which clients and proxies keep it."""

    def __init__(self, card: Mapping[str, Any], modified: datetime) -> None:
        self.body = to_json(card)
        self._modified = modified.replace(microsecond=0)
        self._etag = etag_of(self.body)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the response."""
        return {
            "Cache-Control": f"public, max-age={_MAX_AGE}",
            "ETag": self._etag,
            "Last-Modified": format_datetime(self._modified, usegmt=True),
        }

    def is_current(self, if_none_match: str | None, if_modified_since: str | None) -> bool:
        """Return True if a client already has this card, by the headers of its request.

        `If-Modified-Since` counts only without `If-None-Match`.
        """
        if if_none_match is not None:
            return is_known(self._etag, if_none_match)
        if if_modified_since is None:
            return False
        try:
            return self._modified <= parsedate_to_datetime(if_modified_since)
        except (TypeError, ValueError):  # not a date, or one without a zone
            return False


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
        self._cached: dict[str, ServedCard] = {}
        self._grpc: GrpcInterface | None = None
        self._http_url: str | None = None  # under which a card was last asked for over HTTP

    def set_grpc(self, interface: GrpcInterface | None) -> None:
        """Add the gRPC interface to the cards, or remove it."""
        self._grpc = interface
        self._modified = datetime.now(UTC)
        self._cached.clear()

    def public(self, url: str) -> ServedCard:
        """Return the card that everybody may read."""
        self._http_url = url
        cached = self._cached.get(url)
        if cached is None:
            if len(self._cached) >= _MAX_URLS:
                self._cached.clear()
            cached = self._cached[url] = ServedCard(self._served(self._card, url), self._modified)
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

    def _interfaces(self, url: str | None) -> list[CardInterface]:
        found = []
        if url is not None:
            found += [
                CardInterface(f"{url}{BASE}", binding, self._versions)
                for binding in ("JSONRPC", "HTTP+JSON")
            ]
        if self._grpc is not None:
            found.append(CardInterface(self._grpc.url_for(url), "GRPC", self._versions))
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
