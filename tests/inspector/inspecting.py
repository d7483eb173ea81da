"""Inspectors on loopback, for the length of a block."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import httpx2

from coreason_client.a2a import AgentCardResolver, AsyncA2AClient
from coreason_client.inspector import A2ATarget, CAPTarget, Inspector
from coreason_client.server import running
from coreason_client.server.process._lifespan import serve_lifespan

TOKEN = "token-of-this-launch"
KEY = "key-of-the-agent"
AS_PAGE = {"Authorization": f"Bearer {TOKEN}"}
LIMIT = 20.0


@contextmanager
def inspecting(target: CAPTarget | A2ATarget) -> Iterator[httpx2.Client]:
    """Serve an inspector; yield a client that has its address and its token."""
    with (
        running(Inspector(target, TOKEN), log_config=None) as server,
        httpx2.Client(base_url=server.url, headers=AS_PAGE, timeout=LIMIT) as page,
    ):
        yield page


def url_of(page: httpx2.Client) -> str:
    return str(page.base_url).rstrip("/")


class Switch:
    """One server for many inspectors, one after the other: it starts only once."""

    def __init__(self) -> None:
        self._inspectors: list[Inspector] = []

    def inspect(self, target: CAPTarget) -> None:
        """Serve an inspector of this target from now on."""
        self._inspectors.append(Inspector(target, TOKEN))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await serve_lifespan(self._lifespan(), receive, send)
        else:
            await self._inspectors[-1](scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self) -> Any:
        yield
        async with AsyncExitStack() as stack:
            for inspector in self._inspectors:
                await stack.enter_async_context(inspector._backend.running())


def a2a_target(url: str, **options: Any) -> A2ATarget:
    """Return an A2A agent as a target; `options` are those of its client."""
    with AgentCardResolver() as resolver:
        card = resolver.resolve(url)
    client = AsyncA2AClient.from_agent_card(card, **options)
    secrets = (options.get("auth"), *options.get("headers", {}).values())
    return A2ATarget(url, client, card, secrets)
