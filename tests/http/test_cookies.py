"""Clients that we make keep no cookies: one client may serve many users."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coreason_client import (
    A2AClient,
    AgentCardResolver,
    AsyncA2AClient,
    AsyncAgentCardResolver,
    AsyncCAPClient,
    CAPClient,
)
from coreason_client.server import running


class Server:
    """Sets a cookie with every response, and keeps the cookies that it is sent."""

    def __init__(self) -> None:
        self.url = ""
        self.cookies: list[str | None] = []

    async def answer(self, request: Request) -> Response:
        self.cookies.append(request.headers.get("cookie"))
        body = await request.body()
        return JSONResponse(
            self._content(request.url.path, body), headers={"set-cookie": "user=alice; Path=/"}
        )

    def _content(self, path: str, body: bytes) -> object:
        if path == "/health":
            return {"status": "ok", "agent_id": "6f1c9e7a-b2d0-4a17-8c43-93d0aa17c4aa"} | {
                "version": "1",
                "uptime_seconds": 1,
            }
        if path == "/rpc":
            said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
            call = json.loads(body)
            return {"jsonrpc": "2.0", "id": call["id"], "result": {"message": said}}
        interface = {"url": f"{self.url}/rpc", "protocolBinding": "JSONRPC"}
        return {
            "name": "A",
            "description": "",
            "version": "1",
            "capabilities": {},
            "supportedInterfaces": [{**interface, "protocolVersion": "1.0"}],
            "defaultInputModes": [],
            "defaultOutputModes": [],
            "skills": [],
        }


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    route = Route("/{path:path}", server.answer, methods=["GET", "POST"])
    with running(Starlette(routes=[route])) as found:
        server.url = found.url
        yield server


def test_sync_clients_keep_no_cookies(server: Server) -> None:
    with CAPClient(server.url, "a-key-for-tests") as client:
        for _ in range(2):
            client.health()
    with A2AClient(f"{server.url}/rpc") as agent:
        for _ in range(2):
            agent.send_message("hi")
    with AgentCardResolver() as resolver:
        for path in ("a", "b"):
            resolver.resolve(f"{server.url}/{path}")
    assert server.cookies == [None] * 6


def test_async_clients_keep_no_cookies(server: Server) -> None:
    async def main() -> None:
        async with AsyncCAPClient(server.url, "a-key-for-tests") as client:
            for _ in range(2):
                await client.health()
        async with AsyncA2AClient(f"{server.url}/rpc") as agent:
            for _ in range(2):
                await agent.send_message("hi")
        async with AsyncAgentCardResolver() as resolver:
            for path in ("a", "b"):
                await resolver.resolve(f"{server.url}/{path}")

    asyncio.run(main())
    assert server.cookies == [None] * 6
