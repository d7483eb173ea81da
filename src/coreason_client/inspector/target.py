"""The one agent behind an inspector: its address, and credentials that the page never gets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar
from urllib.parse import urlsplit

from coreason_client.a2a import AgentCard, AsyncA2AClient

from .._http._checks import check_headers, check_key, check_url, shown
from .._http._types import Timeouts, timeouts_from
from .._secret import header_secrets, redact
from ..cap._protocol import base_url_of

__all__ = ["A2ATarget", "CAPTarget"]


@dataclass(frozen=True, slots=True)
class CAPTarget:
    """An agent that speaks CAP.

    Args:
        url: the root of the service.
        api_key: the key, which the page never gets.
        headers: extra headers for every request to the agent.
        timeout: the limit of each request in seconds.
        agent_id: the id in the health report of the agent.
        version: the version there.

    Raises:
        ArgumentError: the URL, the key, a header or the timeout cannot be used.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 60.0
    agent_id: str | None = None
    version: str | None = None
    protocol: ClassVar = "CAP"

    def __post_init__(self) -> None:
        check_url(self.url, "url", credentials_go_into="api_key")
        if self.api_key is not None:
            check_key(self.api_key)
        check_headers(self.headers)
        timeouts_from(self.timeout)

    @property
    def base_url(self) -> str:
        """The URL without a final slash and without `/assist`."""
        return base_url_of(self.url)

    @property
    def shown_url(self) -> str:
        """The address that the page may show."""
        return shown(self.url)

    @property
    def name(self) -> str:
        """The id of the agent, or its host."""
        return self.agent_id or urlsplit(self.url).netloc

    @property
    def timeouts(self) -> Timeouts:
        """The limits of each request."""
        return timeouts_from(self.timeout)

    def redact(self, text: str) -> str:
        """Return a text without the credentials."""
        return redact(text, (self.api_key, *header_secrets(self.headers)))


@dataclass(frozen=True, slots=True)
class A2ATarget:
    """An agent that speaks A2A.

    Args:
        url: the address of the agent.
        client: a client for it.
        card: its card.
        secrets: the secrets of the client, which are removed from everything that the page gets.
        has_token: True if the client sends a credential.
    """

    url: str
    client: AsyncA2AClient
    card: AgentCard
    secrets: tuple[str | None, ...] = field(default=(), repr=False)
    has_token: bool = False
    protocol: ClassVar = "A2A"

    @property
    def shown_url(self) -> str:
        """The address that the page may show."""
        return shown(self.url)

    @property
    def redact(self) -> Callable[[str], str]:
        """A function that returns a text without the credentials."""
        return partial(redact, secrets=self.secrets)
