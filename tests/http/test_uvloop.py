"""The async clients on uvloop, which is not asyncio's own event loop and knows fewer options."""

import asyncio

import pytest
import uvloop

from coreason_client import AsyncCAPClient
from coreason_client.server import AgentApp, AgentStream, running
from coreason_manifest.definitions.service import ServiceRequest


async def hello(request: ServiceRequest, stream: AgentStream) -> str:
    return f"You said {stream.question}."


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_stream_is_read_on_uvloop(host: str) -> None:
    async def go(url: str) -> str:
        assert not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)
        async with AsyncCAPClient(url, "key") as client:
            return "".join([piece async for piece in client.chat("hi")])

    with running(AgentApp(hello)) as server:
        assert uvloop.run(go(f"http://{host}:{server.port}")) == "You said hi."
