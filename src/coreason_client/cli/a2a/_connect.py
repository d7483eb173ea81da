"""Connects to an agent, and turns the errors of its card and of its answers into failures."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import urlsplit

from coreason_client import ArgumentError
from coreason_client.a2a import (
    A2AClient,
    A2AJSONRPCError,
    A2AOriginError,
    AgentCard,
    AgentCardResolver,
    AsyncA2AClient,
    ExtensionSupportRequiredError,
)

from .._options import usage_error
from ..exits import ExitCode, Failure
from ._agent import AgentOptions

Client = TypeVar("Client", A2AClient, AsyncA2AClient)

_CARD_TIMEOUT = 30.0
_NAMES = {"interface_origins": "--interface-origin", "extensions": "--extension"}


def connect(agent: AgentOptions) -> A2AClient:
    """Create a client from the card, like `A2AClient.connect` but with a timeout for the card.

    Raises:
        A2AError: there is no card.
        Failure: the card cannot be used, or an option is invalid.
    """
    return client_from(A2AClient, fetch_card(agent), agent)


def client_from(kind: type[Client], card: AgentCard, agent: AgentOptions) -> Client:
    """Create a client of a class from a card.

    Raises:
        Failure: the card cannot be used, or an option is invalid.
    """
    try:
        for interface in card.supported_interfaces:
            urlsplit(interface.url)
        return kind.from_agent_card(card, **agent.client_options())
    except A2AOriginError as error:
        options = " ".join(f"--interface-origin {origin}" for origin in error.found)
        message = (
            f"the card of {card.name!r} refers to an origin other than {error.named}, or from https"
            f" to http; your token would be sent there. To allow it, add {options}"
        )
        raise Failure(message, ExitCode.PROTOCOL) from None
    except ExtensionSupportRequiredError as error:
        options = " ".join(f"--extension {uri}" for uri in (error.data or {}).get("extensions", ()))
        message = f"the card of {card.name!r} requires extensions: add {options}"
        raise Failure(message, ExitCode.PROTOCOL) from None
    except ValueError as error:
        if isinstance(error, ArgumentError) and error.argument in _NAMES:
            raise usage_error(error, _NAMES) from None
        message = f"the card of {card.name!r} cannot be used: {error}"
        raise Failure(message, ExitCode.PROTOCOL) from None


def fetch_card(agent: AgentOptions) -> AgentCard:
    """Return the card of an agent.

    Raises:
        A2AError: there is no card.
        Failure: the URL is invalid.
    """
    timeout = agent.timeout or _CARD_TIMEOUT
    with AgentCardResolver(headers=agent.card_headers(), timeout=timeout) as resolver:
        try:
            return resolver.resolve(agent.url)
        except ArgumentError as error:
            raise usage_error(error, {"base_url": "URL"}) from None


@contextmanager
def agent_errors(what: str = "the agent answered") -> Iterator[None]:
    """Turn an error that the agent returned into a failure, whose message begins with `what`.

    Raises:
        Failure: the agent returned an error.
    """
    try:
        yield
    except A2AJSONRPCError as error:
        message = error.message.strip() or "an error without a message"
        raise Failure(f"{what}: {message} ({error.code})") from None
