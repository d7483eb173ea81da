"""The card of the agent: made from the agent or given by its author, readable in both versions.

No I/O. A client of 1.0 looks at `supportedInterfaces`, one of 0.3 at `url` and its companions. Both
kinds of fields fit into one object, because each ignores what it does not know.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from coreason_client.a2a.types import AgentCard

from ..http._etag import etag_of, is_known
from ._versions import V03, VERSIONS

__all__ = [
    "AgentDescription",
    "CachedCard",
    "Interface",
    "completed_card",
    "make_card",
    "served_card",
]

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


class Interface(NamedTuple):
    """A URL with one of the bindings `JSONRPC`, `HTTP+JSON` and `GRPC`; `versions` it speaks."""

    url: str
    binding: str
    versions: Sequence[str]


@dataclass(frozen=True, slots=True)
class AgentDescription:
    """What is known of an agent without a card of its own."""

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
    interfaces: Sequence[Interface],
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


def _interfaces(interfaces: Sequence[Interface]) -> list[dict[str, str]]:
    return [
        {"url": one.url, "protocolBinding": one.binding, "protocolVersion": version}
        for version in VERSIONS
        for one in interfaces
        if version in one.versions
    ]


def _older_fields(interfaces: Sequence[Interface], *, extended: bool) -> dict[str, Any]:
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


class CachedCard:
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
