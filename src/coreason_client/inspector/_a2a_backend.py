"""An A2A agent behind the page: an `AgentApp` that passes each message on to it.

So the page speaks CAP, and resuming, a second tab and cancelling work as for any agent here.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import Receive, Scope, Send

from ..server import AgentApp
from ..server.page import PageConfig
from ._a2a_agent import A2ABridge
from ._curl_option import curl_option
from .target import A2ATarget

__all__ = ["A2ABackend"]

_CANCEL_GRACE: Final = 5.0


class A2ABackend:
    """Serves an A2A agent as a CAP agent."""

    shutdown_timeout = _CANCEL_GRACE

    def __init__(self, target: A2ATarget) -> None:
        self._target = target
        self._bridge = A2ABridge(target.client, target.redact)
        # Nobody can resume a stream once this process has ended, so nothing is waited for.
        self._app = AgentApp(
            self._bridge,
            agent_id=target.card.name or "agent",
            version=target.card.version or "0",
            drain_timeout=0.0,
            cancel_grace=_CANCEL_GRACE,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as ASGI."""
        await self._app(scope, receive, send)

    def config(self) -> PageConfig:
        """Return what the page has to know."""
        card = self._target.card
        return {
            "agent_id": card.name,
            "version": card.version,
            "protocol": "a2a",
            "target": self._target.shown_url,
            "needs_key": False,
            "adds_key": self._target.has_token,
            "curl_option": curl_option(card),
            "cut": True,
            "documents": False,
            "card": card.dump(),
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs."""
        try:
            async with self._app.lifespan():
                yield
        finally:
            await self._target.client.aclose()

    async def drain(self) -> None:
        """End every stream, but not the tasks of the agent."""
        self._bridge.stopping = True
        await self._app.drain()
