"""The work that a server does by itself, on a clock that a test moves."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import httpx2
import pytest

from coreason_client.server import (
    AgentApp,
    AgentStream,
    LogUnavailable,
    MemoryStreamLog,
)
from coreason_client.server.log import Claim, NewStream, Opened
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import StreamError, parse_packet
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio
from .log.backends import Clock, Factory, postgres, valkey
from .peer import envelope
from .virtual import Call, until, virtual, virtual_loop


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


class Shared(MemoryStreamLog):
    """A memory log that several processes could share, as far as an application can tell."""

    shared: ClassVar[bool] = True


@pytest.mark.proves("RES2-10e")
@pytest.mark.parametrize("phase", [0.0, 0.1, 0.7, 1.4, 1.9, 2.3, 2.9])
@virtual
async def test_a_stream_whose_producer_is_lost_ends_within_15_s(phase: float) -> None:
    """With the lease of 10 s, whenever between two rounds of the others its producer dies."""
    loop = virtual_loop()
    log = Shared(clock=loop.time)
    assert log.lease == 10
    async with AgentApp(hello, log=log).lifespan():
        await loop.forward(3)
        await loop.forward(phase)
        stream = NewStream(uuid4(), "p", uuid4(), "f")
        died = loop.time()  # right after a renewal, which is the latest that its lease can end
        await log.open(stream, "a process that dies now")
        while (await log.meta(stream.stream_id)).outcome is None:
            await loop.forward(0.1)
            assert loop.time() - died <= 15
        assert loop.time() - died >= 10 - 1e-6  # a producer that lives has this time to renew
        page = await log.read(stream.stream_id, 0, 10, 0)
    (event,) = SSEDecoder().feed(b"".join(page.entries))
    error = parse_packet(event.data_bytes).p
    assert isinstance(error, StreamError)
    assert error.code == "producer_lost"


@pytest.mark.proves("RES2-10e")
@pytest.mark.parametrize("make", [valkey, postgres])
@aio
async def test_on_a_real_store_too_a_stream_whose_producer_is_lost_ends_within_15_s(
    make: Factory,
) -> None:
    clock = Clock()
    log = make(clock, Path())
    app = AgentApp(hello, log=log)
    async with app.lifespan():
        assert app._runtime is not None
        stream = NewStream(uuid4(), "p", uuid4(), "f")
        await log.open(stream, "a process that dies now")
        died = clock.now
        while (await log.meta(stream.stream_id)).outcome is None:
            clock.forward(3)  # the next upkeep
            await app._runtime.upkeep.once()
            assert clock.now - died <= 15
        assert clock.now - died >= 10
        assert (await log.meta(stream.stream_id)).outcome == "producer_lost"


class Moody(MemoryStreamLog):
    """A log that can be away."""

    away = False

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        if self.away:
            raise LogUnavailable("not now")
        return await super().claim_lost(owner, limit)


@virtual
async def test_the_health_is_degraded_while_the_log_does_not_answer() -> None:
    log = Moody()
    app = AgentApp(hello, log=log)

    async def health() -> str:
        answer = await client.get("/health")
        assert answer.status_code == 200
        return str(answer.json()["status"])

    transport = httpx2.ASGITransport(app=app)
    async with (
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client,
        app.lifespan(),
    ):
        assert await health() == "ok"
        log.away = True
        await virtual_loop().forward(3)  # the next upkeep
        assert await health() == "degraded"
        log.away = False
        await virtual_loop().forward(3)  # the next upkeep
        assert await health() == "ok"


@virtual
async def test_a_request_whose_body_arrives_during_a_shutdown_starts_nothing() -> None:
    runs = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        runs.append(request)

    arrives = asyncio.Event()
    app = AgentApp(agent)
    async with app.lifespan():
        call = Call(app, body_arrives=arrives)
        await until(lambda: call.body_wanted)
        app.begin_shutdown()
        arrives.set()
        assert (await call.end()).status == 503
    assert runs == []


class LateOpening(MemoryStreamLog):
    """A log that opens each stream when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_open: list[asyncio.Event] = []

    async def open(self, stream: NewStream, owner: str) -> Opened:
        self.may_open.append(may_open := asyncio.Event())
        await may_open.wait()
        return await super().open(stream, owner)


@virtual
async def test_streams_that_begin_while_others_are_stopped_are_stopped_too() -> None:
    """A request was let in before the shutdown, and the log takes its time to open the stream."""
    log, cancelled, may_leave = LateOpening(), list[str](), list[asyncio.Event]()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(stream.question)
            may_leave.append(event := asyncio.Event())
            await event.wait()

    app = AgentApp(agent, log=log, drain_timeout=0, cancel_grace=3600)
    runtime = await app._ready()
    calls = []
    for number in range(3):
        calls.append(Call(app, envelope(str(number))))
        await until(lambda number=number: len(log.may_open) > number)  # type: ignore[misc]
    log.may_open[0].set()
    await until(lambda: bool(calls[0].packets))
    stopping = asyncio.ensure_future(runtime.stop())
    for number in range(3):
        await virtual_loop().forward(0.001)
        await until(lambda number=number: len(cancelled) > number)  # type: ignore[misc]
        if number < 2:
            log.may_open[number + 1].set()
            await until(lambda number=number: bool(calls[number + 1].packets))  # type: ignore[misc]
        may_leave[number].set()
    await until(stopping.done)
    assert cancelled == ["0", "1", "2"]
    for call in calls:
        assert (await call.end()).packets[-1].p.code == "server_stopped"
