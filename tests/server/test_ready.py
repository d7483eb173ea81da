"""`GET /ready`: whether a balancer should send requests here."""

import asyncio
import logging
from collections.abc import Sequence

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client.server import AgentApp, AgentStream, LogUnavailable, MemoryStreamLog
from coreason_client.server.cap import _routes as routes
from coreason_client.server.log import Claim
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio, turns
from .peer import envelope
from .test_lifecycle import asgi


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


async def state(client: httpx2.AsyncClient, path: str = "/ready") -> tuple[int, str]:
    answer = await client.get(path)
    assert answer.headers["cache-control"] == "no-store"
    assert (answer.headers.get("retry-after") == "1") is (answer.status_code == 503)
    document = answer.json()
    assert list(document) == ["status"]
    return answer.status_code, document["status"]


@aio
async def test_ready_until_the_drain_begins() -> None:
    app = AgentApp(hello, api_keys=["a"])
    async with asgi(app) as client, app.lifespan():
        assert await state(client) == (200, "ready")  # and needs no key
        app.begin_shutdown()
        assert await state(client) == (503, "draining")


@aio
async def test_not_ready_while_the_store_is_away() -> None:
    failed = asyncio.Event()

    class Away(MemoryStreamLog):
        away = False

        async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
            if self.away:
                failed.set()
                raise LogUnavailable("away")
            return await super().claim_lost(owner, limit)

    log = Away(lease=0.05)
    app = AgentApp(hello, log=log)
    async with asgi(app) as client, app.lifespan():
        assert await state(client) == (200, "ready")
        log.away = True
        await failed.wait()
        await turns()
        assert await state(client) == (503, "degraded")


@aio
async def test_without_a_lifespan_the_first_probe_starts_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "_START_WAIT", 0.01)
    begun, go = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStreamLog):
        async def start(self, owner: str) -> None:
            begun.set()
            await go.wait()
            await super().start(owner)

    app = AgentApp(hello, log=Slow())
    async with asgi(Starlette(routes=[Mount("/agent", app)])) as client:
        assert await state(client, "/agent/ready") == (503, "starting")
        assert begun.is_set()
        go.set()
        assert (await client.post("/agent/assist", json=envelope())).status_code == 200
        assert await state(client, "/agent/ready") == (200, "ready")


@aio
async def test_a_start_that_fails_is_tried_again_and_written_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(MemoryStreamLog):
        attempts = 0

        async def start(self, owner: str) -> None:
            self.attempts += 1
            if self.attempts < 3:
                raise LogUnavailable("the store at 10.1.2.3 refuses connections")
            await super().start(owner)

    caplog.set_level(logging.WARNING, "coreason_client.server")
    async with asgi(AgentApp(hello, log=Failing())) as client:
        assert [await state(client) for _ in range(3)] == [
            (503, "starting"),
            (503, "starting"),
            (200, "ready"),
        ]
    assert "the store at 10.1.2.3 refuses connections" in caplog.text


def test_no_other_path_can_be_called_ready() -> None:
    with pytest.raises(
        ValueError, match="metrics must not be a path that the protocol uses, got '/ready'"
    ):
        AgentApp(hello, metrics="/ready")
