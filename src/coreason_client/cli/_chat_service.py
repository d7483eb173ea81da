"""Whom a chat talks to: a service at an address, or an agent of our own on a loopback port."""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

from coreason_client import ArgumentError, CAPClient, CAPError
from coreason_manifest.definitions.service import ServiceRequest

from ._options import wrong_usage
from ._required_extras import need_server
from .chaos import ChaosProxy
from .exits import ExitCode, Failure

if TYPE_CHECKING:
    from ..agents.llm import Agent

__all__ = ["ChatService", "built_in", "connected", "model"]

# A service without keys takes any; the client insists on one.
_NO_KEY = "anonymous"
_CANCEL_WITHIN = 2.0
_READING_SPEED = 0.012  # seconds for a word


@dataclass(frozen=True, slots=True)
class ChatService:
    """A client to ask with, the way around the proxy, and the proxy if there is one."""

    client: CAPClient
    straight: CAPClient
    url: str
    proxy: ChaosProxy | None = None

    def cancel(self, stream_id: UUID | str | None) -> None:
        """Tell the agent to stop; whether it hears that changes nothing for us."""
        if stream_id is not None:
            with suppress(CAPError):
                self.straight.cancel(stream_id, timeout=_CANCEL_WITHIN)

    def cuts(self) -> int:
        """How often the proxy has cut a connection."""
        return 0 if self.proxy is None else self.proxy.cuts

    def again(self, request: ServiceRequest) -> list[Any]:
        """Read the whole answer to a request once more, past the proxy."""
        with self.straight.assist(request) as packets:
            return list(packets)


@contextmanager
def built_in(*, watched: bool) -> Iterator[tuple[str, str]]:
    """Serve the built-in agent while the block runs; give its address and its key.

    Raises:
        MissingExtraError: the server kit is not installed.
    """
    need_server("the built-in agent")
    from ..agents.guide import guide, paced

    with _served(paced(_READING_SPEED) if watched else guide, "guide") as place:
        yield place


@contextmanager
def model(name: str, system: str | None) -> Iterator[tuple[str, str]]:
    """Serve a model as an agent while the block runs; give its address and its key.

    Raises:
        MissingExtraError: the server kit or the AI client is not installed.
        Failure: the model cannot be asked.
    """
    need_server("--llm")
    from ._llm_client import model_agent

    # Who asks here also runs the agent, and may know all about its errors.
    with _served(model_agent(name, system, tell_errors=True), "llm") as place:
        yield place


@contextmanager
def _served(agent: "Agent", agent_id: str) -> Iterator[tuple[str, str]]:
    from ..server import AgentApp, running

    _bypass_proxies("127.0.0.1")
    key = secrets.token_urlsafe(24)  # other users of this machine can reach the port too
    app = AgentApp(agent, api_keys=[key], agent_id=agent_id, drain_timeout=1, cancel_grace=1)
    with running(app, log_config=None) as server:
        yield server.url, key


@contextmanager
def connected(
    url: str,
    api_key: str | None,
    *,
    seed: int | None,
    timeout: float,
    max_retries: int | None,
    names: Mapping[str, str],
) -> Iterator[ChatService]:
    """Make the clients, and the proxy between them and the service when there is a seed.

    `names` says where the arguments of the client come from: its options and variables.

    Raises:
        Failure: the address, the key or a limit cannot work.
    """
    key = api_key or _NO_KEY
    with ExitStack() as stack:
        straight = stack.enter_context(_client(url, key, timeout, 0, names))
        if seed is None:
            client = stack.enter_context(_client(url, key, timeout, max_retries, names))
            yield ChatService(client, straight, url)
            return
        proxy = stack.enter_context(_proxy(url, seed))
        _bypass_proxies("127.0.0.1")
        parts = urlsplit(url)
        through = parts._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()
        client = stack.enter_context(_client(through, key, timeout, max_retries, names))
        yield ChatService(client, straight, url, proxy)


def _client(
    url: str, key: str, timeout: float, max_retries: int | None, names: Mapping[str, str]
) -> CAPClient:
    try:
        if max_retries is None:  # then an answer also survives the restart of its server
            return CAPClient(url, key, timeout)
        return CAPClient(url, key, timeout, max_retries)
    except ArgumentError as error:
        raise wrong_usage(error, names) from None


def _proxy(url: str, seed: int) -> ChaosProxy:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise Failure(
            "--chaos cuts plain connections, and a certificate does not name the proxy: it needs "
            "an address that begins with http://",
            ExitCode.USAGE,
        )
    return ChaosProxy(parts.hostname, parts.port or 80, seed)


def _bypass_proxies(host: str) -> None:
    """Keep the client from asking the proxy of the environment for a port of this machine."""
    for name in ("NO_PROXY", "no_proxy"):
        known = os.environ.get(name)
        os.environ[name] = f"{known},{host}" if known else host
