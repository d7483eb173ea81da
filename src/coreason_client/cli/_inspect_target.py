"""The agent that `coreason inspect` shows: which protocol it speaks, and how it is reached."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

from coreason_client import (
    ArgumentError,
    CAPClient,
    CAPConnectionError,
    CAPError,
    CAPProtocolError,
    CAPRuntimeError,
)
from coreason_client.a2a import A2AConnectionError, A2AError, AgentCard, AsyncA2AClient
from coreason_manifest.definitions.service import HealthCheckResponse

from ..inspector import A2ATarget, CAPTarget
from ._options import usage_error
from .a2a._agent import AgentOptions
from .a2a._connect import client_from, fetch_card
from .exits import ExitCode, Failure

Protocol: TypeAlias = Literal["cap", "a2a"]

_NO_KEY = "anonymous"  # the client requires a key; a service without keys accepts any
_CAP_TIMEOUT = 60.0
_HEALTH_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """The target that the user names; `agent` has all that an A2A agent needs.

    `key_name` is the option or the variable that has the key.
    """

    agent: AgentOptions
    api_key: str | None
    key_name: str

    @property
    def secrets(self) -> tuple[str | None, ...]:
        """The values that no message may contain."""
        return self.api_key, *self.agent.secrets


def find_target(options: InspectOptions, protocol: Protocol | None) -> CAPTarget | A2ATarget:
    """Return the target: an A2A agent if it has a card, otherwise a CAP agent.

    Raises:
        Failure: it speaks neither, or an option is invalid.
        CoreasonError: it does not answer.
    """
    if protocol == "cap":
        health = None
        with suppress(CAPError):  # it may have none, or start later
            health = _health(options)
        return _cap_target(options, health)
    if protocol == "a2a":
        return _a2a_target(options, fetch_card(options.agent))
    try:
        card = fetch_card(options.agent)
    except A2AConnectionError:
        raise
    except A2AError as no_card:
        return _cap_target(options, _health_or_failure(options, no_card))
    return _a2a_target(options, card)


def _a2a_target(options: InspectOptions, card: AgentCard) -> A2ATarget:
    agent = options.agent
    # A key of the environment may be meant for other agents, so only that of an option is refused.
    if options.api_key and options.key_name == "--api-key" and not agent.token:
        raise Failure(
            f"--api-key is for CAP agents, and {agent.url} is an A2A agent: use --token, or "
            "--protocol cap if it speaks both",
            ExitCode.USAGE,
        )
    client = client_from(AsyncA2AClient, card, agent)
    return A2ATarget(agent.url, client, card, agent.secrets, agent.token is not None)


def _cap_target(options: InspectOptions, health: HealthCheckResponse | None) -> CAPTarget:
    agent = options.agent
    if agent.token and agent.token_from_option and not options.api_key:
        raise Failure(
            f"--token is for A2A agents, and {agent.url} is a CAP agent: use --api-key",
            ExitCode.USAGE,
        )
    if options.api_key is not None and "authorization" in map(str.lower, agent.headers):
        rule = f"--header must not be Authorization beside {options.key_name}"
        raise Failure(rule, ExitCode.USAGE)
    try:
        return CAPTarget(
            agent.url,
            options.api_key,
            agent.headers,
            agent.timeout or _CAP_TIMEOUT,
            None if health is None else health.agent_id,
            None if health is None else health.version,
        )
    except ArgumentError as error:
        raise usage_error(error, _names(options)) from None


def _health_or_failure(options: InspectOptions, no_card: A2AError) -> HealthCheckResponse:
    try:
        return _health(options)
    except CAPConnectionError:
        raise
    except (CAPProtocolError, CAPRuntimeError) as no_health:
        raise Failure(
            f"{options.agent.url} is neither an A2A agent ({no_card}) nor a CAP agent "
            f"({no_health}): check the URL, or name the protocol with --protocol",
            ExitCode.PROTOCOL,
        ) from None


def _health(options: InspectOptions) -> HealthCheckResponse:
    agent = options.agent
    timeout = min(agent.timeout or _HEALTH_TIMEOUT, _HEALTH_TIMEOUT)
    try:
        key = _NO_KEY if options.api_key is None else options.api_key
        with CAPClient(agent.url, key, timeout, headers=agent.headers) as client:
            return client.health()
    except ArgumentError as error:
        raise usage_error(error, _names(options)) from None


def _names(options: InspectOptions) -> dict[str, str]:
    return {
        "base_url": "URL",
        "url": "URL",
        "api_key": options.key_name,
        "headers": "--header",
        "timeout": "--timeout",
    }
