"""The service that a chat talks to: at a given URL, or an agent served on a loopback port."""

import os
import random
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from coreason_client import ArgumentError, CAPClient, CAPError
from coreason_manifest.definitions.service import ServiceRequest

from ...testing._chaos import ChaosProxy, ConnectionPlan
from .._attached import MAX_ATTACHED_BYTES
from .._load import require_server
from .._options import usage_error
from ..exits import ExitCode, Failure
from ..output import print_dimmed, print_stderr
from ._agent_process import SECONDS_PER_WORD, AgentKiller, agent_process, own_agent

# The client requires a key; a service without keys accepts any.
_NO_KEY = "anonymous"
_CALL_TIMEOUT = 2.0
_MIN_BYTES, _MAX_BYTES, _GROWTH = 100, 4_000, 1.2  # of a connection until it is cut
_MAX_CUTS = 100
_MAX_BODY_BYTES = 2 * MAX_ATTACHED_BYTES  # as base64, and the rest of the request


@dataclass(slots=True)
class ChatService:
    """The client to ask with, a client that bypasses the proxy, and the proxy if there is one.

    `killer` kills the agent, if that was asked for. `shown` are the streams that were shown, and
    `told` those whose agent was sent a message. `asked` is the one whose question for a permission
    was shown last.
    """

    client: CAPClient
    direct: CAPClient
    url: str
    proxy: ChaosProxy | None = None
    killer: AgentKiller | None = None
    shown: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    asked: str | None = None

    def cancel(self, stream_id: UUID | str | None) -> None:
        """Ask the agent to stop; errors are ignored, because the answer is no longer wanted."""
        if stream_id is not None:
            self.shown.add(str(stream_id))
            with suppress(CAPError):
                self.direct.cancel(stream_id, timeout=_CALL_TIMEOUT)

    def say(self, stream_id: UUID | str, text: str) -> None:
        """Send a message to the agent that is answering; print it, and why it was not sent."""
        print_dimmed(f"> {text}")
        self.told.add(str(stream_id))
        try:
            client = self.client if self.proxy is None else self.direct
            client.send(stream_id, text, timeout=_CALL_TIMEOUT)
        except CAPError as error:
            sentence = str(error).split(f"HTTP {error.status_code}: ")[-1]
            # The agent may have it if there was no response, or only one of a gateway.
            lost = (error.status_code or 500) >= 500
            print_stderr(f"{'Perhaps not' if lost else 'Not'} sent: {sentence}")

    def cuts(self) -> int:
        """Return the number of connections that the proxy has cut."""
        return 0 if self.proxy is None else self.proxy.faults

    def kills(self) -> int:
        """Return how many times the agent was killed."""
        return 0 if self.killer is None else self.killer.kills.count

    def read_directly(self, request: ServiceRequest) -> list[Any]:
        """Read the whole answer to a request again, without the proxy."""
        with self.direct.assist(request) as packets:
            return list(packets)


@contextmanager
def serve_agent(
    llm: str | None, system: str | None, *, at_reading_speed: bool
) -> Iterator[tuple[str, str]]:
    """Serve the built-in agent or a model while the block runs; yield its URL and its key.

    Raises:
        MissingExtraError: the server kit or the AI client is not installed.
        Failure: the model has no key, or an environment variable is invalid.
    """
    require_server("the built-in agent" if llm is None else "--llm")
    from ...server import AgentApp, running

    agent = own_agent(llm, system, SECONDS_PER_WORD if at_reading_speed else 0)
    _bypass_proxies("127.0.0.1")
    key = secrets.token_urlsafe(24)  # other users of this machine can reach the port
    app = AgentApp(
        agent,
        api_keys=[key],
        agent_id="guide" if llm is None else "llm",
        drain_timeout=1,
        cancel_grace=1,
        max_body_bytes=_MAX_BODY_BYTES,
    )
    with running(app, log_config=None) as server:
        yield server.url, key


@contextmanager
def serve_killable(
    llm: str | None, system: str | None, *, seed: int, verbose: int
) -> Iterator[AgentKiller]:
    """Serve the built-in agent or a model in a process that is killed, while the block runs.

    Raises:
        MissingExtraError: the server kit or the AI client is not installed.
        Failure: the model has no key, an environment variable is invalid, or the process does not
            start.
    """
    require_server("--kill")
    if sys.platform == "win32":
        raise Failure("--kill does not work on Windows, which has no SIGKILL", ExitCode.USAGE)
    own_agent(llm, system)  # an error of a model is reported by this process
    _bypass_proxies("127.0.0.1")
    with agent_process(llm, system, verbose=verbose) as process:
        yield AgentKiller(process, seed)


@contextmanager
def connect(
    url: str,
    api_key: str | None,
    *,
    seed: int | None,
    timeout: float,
    max_retries: int | None,
    names: Mapping[str, str],
    killer: AgentKiller | None = None,
) -> Iterator[ChatService]:
    """Create the clients and, if there is a seed, the proxy in front of the service.

    `names` maps arguments of the client to the options or variables that set them.

    Raises:
        Failure: the URL, the key or a limit is invalid.
    """
    key = api_key or _NO_KEY
    with ExitStack() as stack:
        direct = stack.enter_context(_client(url, key, timeout, 0, names))
        if seed is None:
            client = stack.enter_context(_client(url, key, timeout, max_retries, names))
            yield ChatService(client, direct, url)
            return
        proxy = stack.enter_context(_proxy(url, seed))
        _bypass_proxies("127.0.0.1")
        client = stack.enter_context(_client(proxy.url, key, timeout, max_retries, names))
        yield ChatService(client, direct, url, proxy, killer)


def _client(
    url: str, key: str, timeout: float, max_retries: int | None, names: Mapping[str, str]
) -> CAPClient:
    try:
        # The default also survives a restart of the server.
        return CAPClient(url, key, timeout, *([] if max_retries is None else [max_retries]))
    except ArgumentError as error:
        raise usage_error(error, names) from None


def _proxy(url: str, seed: int) -> ChaosProxy:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise Failure(
            "--chaos needs a URL that starts with http://, because the certificate of an https "
            "service does not match the proxy",
            ExitCode.USAGE,
        )
    return ChaosProxy(url, plan=cut_plans(seed))


def cut_plans(seed: int) -> list[ConnectionPlan]:
    """Return the cut of each connection; the same for each seed.

    The smallest numbers of bytes cut inside the response head, most cut inside an event. Each
    connection lasts a little longer than the one before, so even an answer with a huge packet
    completes.
    """
    draw = random.Random(seed)
    plans = []
    for number in range(_MAX_CUTS):
        after = int(draw.randint(_MIN_BYTES, _MAX_BYTES) * _GROWTH**number)
        plans.append(ConnectionPlan("reset" if draw.random() < 0.5 else "cut", after))
    return plans


def _bypass_proxies(host: str) -> None:
    """Keep the client from using a proxy of the environment for this host."""
    for name in ("NO_PROXY", "no_proxy"):
        hosts = os.environ.get(name)
        os.environ[name] = f"{hosts},{host}" if hosts else host
