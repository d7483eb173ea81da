"""An application in the same event loop: pieces arrive as they are written, and can be lost."""

import asyncio
from typing import Any

import httpx2
import pytest

from coreason_client import AsyncCAPClient
from coreason_client.testing import VirtualClock, delay, disconnect, fake_agent
from coreason_client.testing._fake_agent import InProcessTransport


@pytest.mark.proves("KIT-in-process")
def test_a_fake_agent_needs_no_port(coreason_clock: VirtualClock) -> None:
    async def main() -> None:
        agent = fake_agent(["a", disconnect(), "b"], ["c", delay(3600)])
        async with (
            agent.in_process() as http,
            AsyncCAPClient("http://localhost", "key", http_client=http) as client,
        ):
            assert await client.ask("1") == "ab"
            async for piece in client.chat("2"):
                assert piece == "c"  # before the answer is complete
                break
        assert (agent.disconnects, agent.questions) == (1, ["1", "2"])

    asyncio.run(asyncio.wait_for(main(), 20))


def ask(app: Any) -> tuple[int, bytes]:
    async def main() -> tuple[int, bytes]:
        async with httpx2.AsyncClient(transport=InProcessTransport(app)) as client:
            response = await client.post("http://localhost/a?b=c", content=b"body")
            return response.status_code, response.content

    return asyncio.run(asyncio.wait_for(main(), 20))


def test_an_application_gets_the_request_and_its_errors_are_raised() -> None:
    async def echo(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        await send({"type": "http.response.start", "status": 201, "headers": []})
        body = b"%b %b %b" % (scope["raw_path"], scope["query_string"], message["body"])
        await send({"type": "http.response.body", "body": body})

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise LookupError("broken")

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        return

    assert ask(echo) == (201, b"/a b=c body")
    with pytest.raises(LookupError, match="broken"):
        ask(broken)
    with pytest.raises(ConnectionResetError):
        ask(silent)
