"""A server on loopback for each test that wants one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from coreason_client.server import AgentApp, running

from .peer import Peer

Serve = Callable[..., Peer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve an agent, or a whole application, until the test ends."""
    with ExitStack() as stack:

        def start(agent: Any, key: str | None = None, **options: Any) -> Peer:
            options.setdefault("drain_timeout", 0.0)
            app = agent if isinstance(agent, AgentApp) else AgentApp(agent, **options)
            server = stack.enter_context(running(app))
            peer = Peer(server.url, key)
            stack.callback(peer.close)
            return peer

        yield start
