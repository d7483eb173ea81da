"""A server with the page for one test, with an agent that plays scripts.

The question of the user is the name of a script. `gate` lets a script go on, so a test decides what
happens while an answer is being written.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coreason_client.server import AgentApp, AgentStream, running
from coreason_manifest.definitions.service import ServiceRequest

LIMIT = 20.0

Script = Callable[[AgentStream, "Site"], Awaitable[None]]


class Site:
    """An agent behind the page, whose connections can be cut."""

    def __init__(self, scripts: dict[str, Script]) -> None:
        self.gate = threading.Event()
        self.url = ""
        self._scripts = scripts

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Play the script that the question names."""
        await self._scripts[stream.question](stream, self)

    async def opened(self) -> None:
        """Wait until the test opens the gate."""
        await asyncio.to_thread(self.gate.wait, LIMIT)


@contextmanager
def serving(scripts: dict[str, Script], **options: Any) -> Iterator[Site]:
    """Serve a site on loopback while the block runs; the options are those of `AgentApp`."""
    site = Site(scripts)
    named = {"agent_id": "test-agent", "version": "1.0", **options}
    app = AgentApp(site, page=True, _cuts=True, drain_timeout=0.0, **named)
    with running(app) as server:
        site.url = server.url
        try:
            yield site
        finally:
            site.gate.set()
