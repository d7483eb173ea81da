"""Servers for the suite: one for each log, with an agent that a test can control."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coreason_client.a2a import AgentCard
from coreason_client.server import (
    AgentApp,
    AgentStream,
    MemoryStreamLog,
    ServiceRequest,
    SQLiteStreamLog,
    StreamLog,
    running,
)
from coreason_client.server.a2a import A2A
from coreason_client.server.log import PostgresStreamLog, ValkeyStreamLog
from examples.a2a_conformance import conformance
from tests.server.log import postgres_server
from tests.server.log.valkey_server import fresh_prefix, shared_server

KEYS = {"ann-key": "ann", "bob-key": "bob"}
HELD = "held"
"""The beginning of the id of a message whose answer the test writes."""
SIGN_IN = "sign-in"
"""The beginning of the id of a message that needs an authorization for its context."""


class _Script:
    def __init__(self) -> None:
        self.lines: deque[str | None] = deque()
        self.wake: Callable[[], object] = lambda: None


class Stage:
    """The output of held agents: a test gives them lines, from its own thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scripts: dict[str, _Script] = {}
        self._authorized: set[str] = set()

    def authorize(self, context_id: str) -> None:
        """Give the agent its authorization for a context, as a sign-in page would do."""
        self._authorized.add(context_id)

    def say(self, message_id: str, *lines: str) -> None:
        """Let the agent of a message write some lines."""
        script = self._script(message_id)
        script.lines.extend(lines)
        script.wake()

    def finish(self, message_id: str) -> None:
        """Let the agent of a message return."""
        script = self._script(message_id)
        script.lines.append(None)
        script.wake()

    async def agent(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Does what the conformance kit expects, or what a test says."""
        message_id = request.payload.metadata["a2a"]["messageId"]
        if message_id.startswith(HELD):
            async for line in self._lines(message_id):
                await stream.write(line)
        elif not message_id.startswith(SIGN_IN):
            await conformance(request, stream)
        elif request.context.session_id in self._authorized:
            await stream.write("You are signed in.")
        else:
            await stream.ask("Sign in at https://example.com/login.", auth=True)

    async def _lines(self, message_id: str) -> AsyncIterator[str]:
        loop, woken, script = asyncio.get_running_loop(), asyncio.Event(), self._script(message_id)
        script.wake = lambda: loop.call_soon_threadsafe(woken.set)
        while True:
            woken.clear()
            while script.lines:
                line = script.lines.popleft()
                if line is None:
                    return
                yield line
            await woken.wait()

    def _script(self, message_id: str) -> _Script:
        with self._lock:
            return self._scripts.setdefault(message_id, _Script())


@dataclass(frozen=True)
class Site:
    """A server and its stage."""

    url: str
    grpc: str
    stage: Stage

    @property
    def a2a(self) -> str:
        """The URL of both bindings over HTTP."""
        return f"{self.url}/a2a"

    def interface(self, binding: str) -> str:
        """Return the URL of a binding."""
        return self.grpc if binding == "GRPC" else self.a2a


def card(name: str = "Conformance", **more: Any) -> AgentCard:
    """Return a card of an agent that accepts text and JSON."""
    modes = ["text/plain", "application/json"]
    skill = {"id": "tck", "name": "Kit", "description": "Behaves.", "tags": ["conformance"]}
    return AgentCard.model_validate(
        {
            "name": name,
            "description": "Does what the conformance kit expects.",
            "version": "1.0.0",
            "defaultInputModes": modes,
            "defaultOutputModes": modes,
            "skills": [skill],
            **more,
        }
    )


@contextmanager
def site(
    log: StreamLog,
    settings: A2A | None = None,
    server: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[Site]:
    """Serve the agent with keys for Ann and Bob; `server` are options of uvicorn."""
    stage = Stage()
    settings = settings or A2A(
        card=card(),
        extended_card=card("Extended"),
        allow_http_webhooks=True,  # the webhooks of the tests are at http://127.0.0.1
        allow_private_webhooks=True,
    )
    given: dict[str, Any] = {"api_keys": KEYS, "drain_timeout": 0.0, "cancel_grace": 1.0}
    settings = replace(settings, grpc_address="127.0.0.1:0")
    app = AgentApp(stage.agent, log=log, a2a=settings, **(given | options))
    with running(app, **(server or {})) as listening:
        yield Site(listening.url, f"127.0.0.1:{app.grpc_port}", stage)


def valkey() -> StreamLog:
    return ValkeyStreamLog(shared_server().url, prefix=fresh_prefix())


def postgres() -> StreamLog:
    schema = postgres_server.fresh_schema()
    return PostgresStreamLog(postgres_server.shared_server().url, schema=schema)


LOGS: dict[str, Callable[[Path], StreamLog]] = {
    "memory": lambda _: MemoryStreamLog(),
    "sqlite": lambda folder: SQLiteStreamLog(folder / "log.db"),
    "valkey": lambda _: valkey(),
    "postgres": lambda _: postgres(),
}
