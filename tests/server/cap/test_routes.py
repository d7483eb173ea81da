"""The routes: their table, `/ready`, `/health`, `DELETE /streams/...`, and which reader is made."""

import asyncio
import json
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from coreason_client.server import AgentApp, AgentStream, LogUnavailable, MemoryStreamLog
from coreason_client.server.cap import _routes as routes
from coreason_client.server.cap._routes import Routes
from coreason_client.server.engine._limits import Unit
from coreason_client.server.engine._runtime import Runtime
from coreason_client.server.errors import PositionGone
from coreason_client.server.http._admission import Admission, Admitted, StreamRequest
from coreason_client.server.http._cursor import Cursor
from coreason_client.server.http._gate import Gate
from coreason_client.server.http._stream_response import EventStream
from coreason_client.server.log import Claim, StreamMeta
from coreason_client.server.observe._metrics import NO_METRICS
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import aio, turns
from ..peer import envelope
from ..test_lifecycle import asgi

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": []}


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


# The table.


def routes_of(app: AgentApp, runtime: Any = None) -> Routes:
    async def ready() -> Any:
        return runtime

    return Routes(Gate(app._options, None), NO_METRICS, None, ready)


@pytest.mark.parametrize("metrics", [False, "/numbers"])
def test_each_path_is_served_with_and_without_a_trailing_slash(metrics: bool | str) -> None:
    app = AgentApp(hello, metrics=metrics)
    table = [(route.path, route.methods) for route in routes_of(app).table()]
    paths = {
        "/assist": {"POST"},
        "/v1/assist": {"POST"},
        "/health": {"GET", "HEAD"},
        "/ready": {"GET", "HEAD"},
        "/openapi.json": {"GET", "HEAD"},
        "/streams/{stream_id}": {"GET", "DELETE"},
        "/streams/{stream_id}/messages": {"POST"},
        "/conversations/{conversation_id:path}/events": {"GET"},
    }
    if isinstance(metrics, str):
        paths[metrics] = {"GET", "HEAD"}
    assert table == [(path + end, methods) for path, methods in paths.items() for end in ("", "/")]


@pytest.mark.parametrize(
    ("closing", "log_works", "status"),
    [
        (False, True, "ok"),
        (False, False, "degraded"),
        (True, True, "maintenance"),
        (True, False, "maintenance"),
    ],
)
@aio
async def test_the_health_of_a_runtime(closing: bool, log_works: bool, status: str) -> None:
    runtime = SimpleNamespace(closing=closing, log_works=log_works, uptime=12.5)
    response = await routes_of(AgentApp(hello, agent_id="a"), runtime).health(Request(SCOPE))
    assert response.headers["cache-control"] == "no-store"
    document = json.loads(bytes(response.body))
    assert (document["status"], document["agent_id"], document["uptime_seconds"]) == (
        status,
        "a",
        12.5,
    )


ID = UUID("00112233-4455-6677-8899-aabbccddee01")


# Readers.


class Readers:
    """A runtime that records which stream it is asked about."""

    def __init__(self) -> None:
        self.released = 0
        self.checked: list[UUID] = []
        self.added: list[UUID] = []
        self.producers = self
        self.closing = False

    def check_producer(self, stream_id: UUID) -> None:
        self.checked.append(stream_id)

    def add_reader(self, meta: StreamMeta, unit: Unit) -> None:
        unit.hand_on()
        self.added.append(meta.stream_id)

    def release(self) -> None:
        self.released += 1


def make_reader(
    runtime: Readers,
    after_seq: int,
    *,
    ended: bool = False,
    body_gone: bool = False,
    outcome: str | None = None,
) -> Response:
    """Return the response for a reader of a stream with three packets."""
    if ended and outcome is None:
        outcome = "complete"
    ended_at = 9.0 if ended else None
    meta = StreamMeta(ID, "p", ID, "f", 1, 3, 5.0, outcome, ended_at, False, body_gone)
    unit = Unit(runtime.release)

    async def admitted(_: object) -> Admitted:
        return Admitted(cast("Runtime", runtime), meta, Cursor(ID, after_seq), False, unit)

    routes = routes_of(AgentApp(hello))
    routes._admission = cast("Admission", SimpleNamespace(admit=admitted))
    reading = routes._read(cast("StreamRequest", None))
    return asyncio.run(reading)


@pytest.mark.parametrize(
    ("after_seq", "ended", "checks"),
    [
        (0, False, 0),
        (2, False, 0),
        (3, False, 1),
        (4, False, 1),  # the store has lost a packet
        (0, True, 0),
        (2, True, 0),
    ],
)
def test_a_reader_with_nothing_to_read_yet_needs_a_producer(
    after_seq: int, ended: bool, checks: int
) -> None:
    runtime = Readers()
    response = make_reader(runtime, after_seq, ended=ended)
    assert isinstance(response, EventStream)
    assert (runtime.checked, runtime.added, runtime.released) == ([ID] * checks, [ID], 0)


@pytest.mark.parametrize("outcome", ["complete", "agent_error", "cancelled"])
@pytest.mark.parametrize("body_gone", [False, True])
def test_a_reader_at_the_end_of_an_ended_stream_gets_no_content_but_the_outcome(
    body_gone: bool, outcome: str
) -> None:
    runtime = Readers()
    response = make_reader(runtime, 3, ended=True, body_gone=body_gone, outcome=outcome)
    assert (response.status_code, runtime.added, runtime.released) == (204, [], 1)
    assert response.headers["x-stream-outcome"] == outcome


def test_dropped_packets_cannot_be_read() -> None:
    runtime = Readers()
    with pytest.raises(PositionGone):
        make_reader(runtime, 2, ended=True, body_gone=True)
    assert (runtime.added, runtime.released) == ([], 1)


# `/ready`: whether a balancer should send requests here.


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
async def test_not_ready_while_the_store_cannot_be_used() -> None:
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
async def test_a_start_that_fails_is_retried_and_logged(
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


def test_metrics_cannot_have_the_path_of_ready() -> None:
    with pytest.raises(
        ValueError, match="metrics must not be a path that the protocol uses, got '/ready'"
    ):
        AgentApp(hello, metrics="/ready")


@pytest.mark.parametrize("path", ["/a2a", "/a2a/metrics", "/.well-known/agent-card.json"])
def test_metrics_cannot_have_a_path_of_a2a(path: str) -> None:
    with pytest.raises(ValueError, match="metrics must not be a path that the protocol uses"):
        AgentApp(hello, metrics=path, a2a=True)
    AgentApp(hello, metrics=path)  # nobody else uses it


def test_metrics_may_begin_like_a_path_of_a2a() -> None:
    AgentApp(hello, metrics="/a2a-metrics", a2a=True)
