"""Start, upkeep, drain and stop; alone, mounted, and on one event loop after another."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client.server import (
    AgentApp,
    AgentStream,
    LogUnavailable,
    MemoryStreamLog,
    SQLiteStreamLog,
    running,
)
from coreason_client.server.engine import _runtime
from coreason_client.server.log import LeaseState, StreamLog
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import StreamPacket, parse_packet
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio, turns
from .conftest import Serve
from .log.backends import Clock
from .peer import LIMIT, Gate, Peer, envelope, wait_for


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


class Shared(MemoryStreamLog):
    """A memory log that several processes could share, as far as an application can tell."""

    shared: ClassVar[bool] = True


@contextlib.asynccontextmanager
async def asgi(app: Any) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://agent") as client:
        yield client


def decode(raw: bytes) -> list[StreamPacket]:
    return [parse_packet(event.data_bytes) for event in SSEDecoder().feed(raw)]


async def ask(
    client: httpx2.AsyncClient, body: object = None, path: str = "/assist"
) -> list[StreamPacket]:
    answer = await client.post(path, json=body or envelope())
    assert answer.status_code == 200
    return decode(answer.content)


# Drain.


def leave(server: contextlib.ExitStack) -> threading.Thread:
    """Stop a server in the background."""
    thread = threading.Thread(target=server.close)
    thread.start()
    return thread


@pytest.mark.proves("RES2-11c", "RES2-11d")
def test_on_shutdown_readers_are_told_and_get_what_the_producer_drains() -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.write("b")

    app, stack = AgentApp(agent, drain_timeout=LIMIT), contextlib.ExitStack()
    peer = Peer(stack.enter_context(running(app)).url)
    with peer.open() as answer:
        answer.until(1)
        stopping = leave(stack)
        answer.until_raw(b"retry: ")
        gate.open()
        answer.rest()
    stopping.join(LIMIT)
    assert answer.text == "ab"
    assert answer.last.op == "CLOSE"
    assert answer.decoder.retry_ms is not None
    assert 500 <= answer.decoder.retry_ms <= 2000
    peer.close()


@pytest.mark.proves("RES2-11c")
def test_on_shutdown_readers_of_a_shared_log_leave_at_once() -> None:
    gate, log = Gate(), Shared()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.write("b")

    stack, body = contextlib.ExitStack(), envelope()
    app = AgentApp(agent, log=log, drain_timeout=LIMIT)
    peer = Peer(stack.enter_context(running(app)).url)
    with peer.open(body) as answer:
        answer.until(1)
        stopping = leave(stack)
        answer.rest()  # the response ends though the producer has not
    assert answer.seqs == [1]
    assert answer.decoder.retry_ms is not None
    gate.open()
    stopping.join(LIMIT)
    peer.close()
    with running(AgentApp(agent, log=log)) as server:  # another replica
        other = Peer(server.url)
        assert other.ask(body, f"{answer.stream_id}:1").text == "b"
        other.close()


@pytest.mark.proves("RES2-11d", "RES2-1c", "RFC005-agent-same-shape")
def test_a_producer_that_does_not_drain_in_time_ends_with_a_numbered_error(tmp_path: Path) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await asyncio.Event().wait()

    body, log = envelope(), SQLiteStreamLog(tmp_path / "l.db")
    stack = contextlib.ExitStack()
    app = AgentApp(agent, log=log, drain_timeout=0.05)
    peer = Peer(stack.enter_context(running(app)).url)
    with peer.open(body) as answer:
        answer.until(1)
        stopping = leave(stack)
        answer.rest()
    stopping.join(LIMIT)
    peer.close()
    assert answer.seqs == [1, 2]
    assert answer.last.p.code == "server_stopped"
    with running(AgentApp(agent, log=log)) as server:
        again = Peer(server.url)
        assert again.ask(body).payloads == answer.payloads
        again.close()


@aio
async def test_a_server_that_shuts_down_takes_no_requests() -> None:
    app = AgentApp(hello)
    async with asgi(app) as client, app.lifespan():
        app.begin_shutdown()
        answer = await client.post("/assist", json=envelope())
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert (await client.get("/health")).json()["status"] == "maintenance"


@aio
async def test_a_server_that_shuts_down_serves_the_streams_that_it_has() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        begun.set()
        await go.wait()

    app, body = AgentApp(agent, drain_timeout=LIMIT), envelope()
    async with asgi(app) as client, app.lifespan():
        first = asyncio.ensure_future(client.post("/assist", json=body))
        await begun.wait()
        assert app._runtime is not None
        (producer,) = app._runtime.producers
        app.begin_shutdown()

        def ask(body: Any, **headers: str) -> asyncio.Future[httpx2.Response]:
            return asyncio.ensure_future(client.post("/assist", json=body, headers=headers))

        known = {"X-Request-ID": body["request_id"]}
        served = [
            ask(body, **{"Last-Event-ID": str(producer.meta.stream_id)}),
            ask(body, **known),
        ]
        refused = [ask(envelope()), ask(envelope(), **known), ask(body)]
        for answer in await asyncio.gather(*refused):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        go.set()
        texts = [decode((await answer).content) for answer in (first, *served)]
        assert texts[0] == texts[1] == texts[2]
        assert texts[0][-1].op == "CLOSE"


# Upkeep.


@aio
async def test_a_producer_that_lost_its_stream_stops_and_the_stream_ends_once() -> None:
    """Two applications on one log; the first one sleeps through its lease."""
    clock = Clock()
    log = Shared(clock=clock)
    stopped = asyncio.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    body = envelope()
    sleeper, heir = (AgentApp(agent, log=log, agent_id="one") for _ in range(2))
    async with asgi(heir) as client, sleeper.lifespan(), heir.lifespan():
        async with asgi(sleeper) as first:
            asking = asyncio.ensure_future(first.post("/assist", json=body))
            await turns(50)
            clock.forward(log.lease + 1)
            assert heir._runtime is not None
            assert sleeper._runtime is not None
            await heir._runtime.upkeep.once()
            packets = decode((await asking).content)
            assert [packet.seq for packet in packets] == [1, 2]
            assert packets[-1].p.code == "producer_lost"
            await sleeper._runtime.upkeep.once()
            await stopped.wait()
            await sleeper._runtime.producers.wait(LIMIT)
        again = await ask(client, body)
        assert again == packets


@aio
async def test_upkeep_renews_and_hears_of_a_cancel() -> None:
    clock = Clock()
    log = MemoryStreamLog(clock=clock)
    cancelled = asyncio.Event()
    ids: list[UUID] = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        ids.append(stream.stream_id)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    app = AgentApp(agent, log=log)
    async with asgi(app) as client, app.lifespan():
        asking = asyncio.ensure_future(client.post("/assist", json=envelope()))
        await turns(50)
        assert app._runtime is not None
        for _ in range(3):
            clock.forward(log.lease - 1)
            await app._runtime.upkeep.once()
        assert await log.renew({ids[0]: 1}) == {ids[0]: LeaseState.HELD}
        await log.request_cancel(ids[0])
        await app._runtime.upkeep.once()
        await cancelled.wait()
        assert decode((await asking).content)[-1].p.code == "cancelled"


@aio
async def test_a_stream_that_is_just_being_ended_is_not_taken_for_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its lease ends with it, a moment before its producer is gone."""

    class Slow(MemoryStreamLog):
        async def close(self, *args: Any) -> None:
            await super().close(*args)
            assert app._runtime is not None
            await app._runtime.upkeep.once()

    app = AgentApp(hello, log=Slow())
    with caplog.at_level(logging.WARNING, "coreason_client.server"):
        async with asgi(app) as client, app.lifespan():
            assert (await ask(client))[-1].op == "CLOSE"
    assert caplog.text == ""


def test_upkeep_runs_by_itself_and_survives_a_failing_log(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    upheld = threading.Event()

    class Moody(MemoryStreamLog):
        failures = 0

        async def claim_lost(self, owner: str, limit: int) -> Any:
            self.failures += 1
            if self.failures == 2:  # the first is the start
                raise LogUnavailable("not now")
            if self.failures == 3:
                upheld.set()
            return await super().claim_lost(owner, limit)

    with caplog.at_level(logging.WARNING, "coreason_client.server"):
        serve(hello, log=Moody(lease=0.05))
        wait_for(upheld)
    assert "not now" in caplog.text


@aio
async def test_a_background_task_that_dies_is_logged_and_the_server_degraded(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies() -> None:
        raise ZeroDivisionError

    def watch_exit(_: object) -> "asyncio.Task[None]":
        return asyncio.get_running_loop().create_task(dies())

    monkeypatch.setattr(_runtime, "watch_exit", watch_exit)
    app = AgentApp(hello)
    async with asgi(app) as client, app.lifespan():
        await turns()
        assert (await client.get("/health")).json()["status"] == "degraded"
        assert (await ask(client))[0].p == "hello"
    assert "a background task of the server failed" in caplog.text
    assert "in dies" in caplog.text


# Mounts and loops.


@pytest.mark.parametrize("with_lifespan", [True, False])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_works_mounted_in_another_application(
    tmp_path: Path, with_lifespan: bool, kind: str
) -> None:
    def log() -> StreamLog:
        return MemoryStreamLog() if kind == "memory" else SQLiteStreamLog(tmp_path / "l.db")

    for _ in range(2):  # the second time shows that the first has let go of the file
        agent = AgentApp(hello, log=log())
        parent = Starlette(
            lifespan=agent.lifespan if with_lifespan else None,
            routes=[Mount("/agents/hello", agent)],
        )
        with running(parent) as server:
            peer = Peer(server.url + "/agents/hello")
            assert peer.ask().text == "hello"
            assert peer.http.get("/health").json()["status"] == "ok"
            assert peer.http.get("/openapi.json").status_code == 200
            peer.close()


def test_a_mounted_agent_without_a_lifespan_still_ends_its_streams(tmp_path: Path) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await asyncio.Event().wait()

    body = envelope()
    path = tmp_path / "l.db"
    parent = Starlette(routes=[Mount("/", AgentApp(agent, log=SQLiteStreamLog(path)))])
    with running(parent, timeout_graceful_shutdown=1) as server:
        peer = Peer(server.url)
        with peer.open(body) as answer:
            answer.until(1)
        peer.close()
    with running(AgentApp(agent, log=SQLiteStreamLog(path))) as server:
        peer = Peer(server.url)
        assert peer.ask(body).payloads[-1].code == "server_stopped"
        peer.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_works_on_one_event_loop_after_another(tmp_path: Path, kind: str) -> None:
    log = MemoryStreamLog() if kind == "memory" else SQLiteStreamLog(tmp_path / "l.db")
    app, body = AgentApp(hello, log=log), envelope()

    async def once() -> list[StreamPacket]:
        async with asgi(app) as client:
            return await ask(client, body)

    async def with_lifespan() -> list[StreamPacket]:
        async with app.lifespan():
            return await once()

    first = asyncio.run(once())
    assert asyncio.run(once()) == first
    assert asyncio.run(with_lifespan()) == first
    assert asyncio.run(once()) == first


@aio
async def test_does_not_serve_on_two_event_loops_at_once() -> None:
    app = AgentApp(hello)
    with running(app) as server:
        peer = Peer(server.url)
        await asyncio.to_thread(peer.ask)
        async with asgi(app) as client:
            with pytest.raises(RuntimeError, match="another event loop"):
                await client.post("/assist", json=envelope())
        peer.close()


@aio
async def test_many_first_requests_start_the_application_once() -> None:
    starts = []

    class Counting(MemoryStreamLog):
        async def start(self, owner: str) -> None:
            starts.append(owner)
            await turns()

    app = AgentApp(hello, log=Counting())
    async with asgi(app) as client:
        answers = await asyncio.gather(*(ask(client) for _ in range(10)))
    assert len(starts) == 1
    assert len({packets[0].stream_id for packets in answers}) == 10


@aio
async def test_a_start_that_failed_is_tried_again() -> None:
    class Late(MemoryStreamLog):
        attempts = 0

        async def start(self, owner: str) -> None:
            self.attempts += 1
            if self.attempts == 1:
                raise LogUnavailable("not yet")

    app = AgentApp(hello, log=Late())
    async with asgi(app) as client:
        assert (await client.post("/assist", json=envelope())).status_code == 503
        assert (await ask(client))[0].p == "hello"
