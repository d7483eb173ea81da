"""Mounted in FastAPI, whose mounts run no lifespan."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI

from coreason_client import CAPClient
from coreason_client.server import AgentApp, running
from coreason_manifest.definitions.service import ServiceRequest


async def echo(request: ServiceRequest) -> AsyncIterator[str]:
    for message in request.payload.messages or []:
        yield f"You said: {message.text}"


@pytest.mark.parametrize("composed", [False, True], ids=["as it is", "with its lifespan"])
def test_an_agent_is_mounted_in_fastapi(composed: bool) -> None:
    agent = AgentApp(echo, api_keys=["sk_1"])
    options: dict[str, Any] = {"lifespan": agent.lifespan} if composed else {}
    app = FastAPI(**options)

    @app.get("/")
    async def home() -> dict[str, str]:
        return {"the": "application"}

    app.mount("/agent", agent)
    with running(app) as server, CAPClient(f"{server.url}/agent", "sk_1") as client:
        assert "".join(client.chat("hello")) == "You said: hello"
        assert client.health().status == "ok"
