"""A producer whose readers disconnect, and the number of readers that a key may have."""

import asyncio
from collections.abc import Sequence, Sized
from uuid import UUID

import pytest

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog
from coreason_client.server.engine._packets import CANCELLED, SERVER_STOPPED
from coreason_manifest.definitions.service import ServiceRequest

from ..peer import envelope
from ..virtual import Call, until, virtual, virtual_loop


class Worker:
    """An agent that writes `a`, waits for the test, and writes `b`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.cancelled = False

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        await stream.write("b")


async def begun(app: AgentApp, body: object) -> Call:
    """Open a stream, and return when its first packet has come."""
    call = Call(app, body)
    await until(lambda: bool(call.packets))
    return call


@pytest.mark.proves("RES2-9b")
@virtual
async def test_by_default_a_producer_without_readers_continues() -> None:
    worker, body = Worker(), envelope()
    app = AgentApp(worker)
    async with app.lifespan():
        await (await begun(app, body)).leave()
        await virtual_loop().forward(3600)
        assert not worker.cancelled
        worker.go.set()
        again = await Call(app, body).end()
    assert again.text == "ab"
    assert again.packets[-1].op == "CLOSE"


@pytest.mark.proves("RES2-9c")
@virtual
async def test_an_abandoned_producer_is_cancelled_when_the_grace_time_is_over() -> None:
    worker, body = Worker(), envelope()
    app = AgentApp(worker, on_abandoned="cancel", abandon_grace=30)
    async with app.lifespan():
        reader = await begun(app, body)
        await virtual_loop().forward(3600)  # as long as somebody reads, time does not count
        await reader.leave()
        await virtual_loop().forward(29.9)
        assert not worker.cancelled
        await virtual_loop().forward(0.1)
        assert worker.cancelled
        assert (await Call(app, body).end()).packets[-1].p.code == "abandoned"


@pytest.mark.proves("RES2-9c")
@virtual
async def test_a_reader_that_comes_back_in_time_saves_the_producer() -> None:
    worker, body = Worker(), envelope()
    app = AgentApp(worker, on_abandoned="cancel", abandon_grace=30)
    async with app.lifespan():
        await (await begun(app, body)).leave()
        await virtual_loop().forward(29.9)
        second = await begun(app, body)
        await virtual_loop().forward(3600)
        assert not worker.cancelled
        await second.leave()  # from here the whole grace time counts again
        await virtual_loop().forward(29.9)
        assert not worker.cancelled
        third = await begun(app, body)
        worker.go.set()
        assert (await third.end()).text == "ab"


@pytest.mark.proves("RES2-9c")
@virtual
async def test_a_producer_is_abandoned_by_its_last_reader_only() -> None:
    worker, body = Worker(), envelope()
    app = AgentApp(worker, on_abandoned="cancel", abandon_grace=30)
    async with app.lifespan():
        first, second = await begun(app, body), await begun(app, body)
        await first.leave()
        await virtual_loop().forward(3600)
        assert not worker.cancelled
        await second.leave()
        await virtual_loop().forward(30)
        assert worker.cancelled


class SlowEnd(MemoryStreamLog):
    """A log that has the end of a stream, so that readers see it, and does not say so yet."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        await super().close(stream_id, epoch, first_seq, entries, outcome)
        await self.answers.wait()


@virtual
async def test_a_stream_that_has_ended_takes_no_place_though_its_producer_is_not_gone() -> None:
    worker, log = Worker(), SlowEnd()
    app = AgentApp(worker, log=log, api_keys=["a", "b"], max_streams_per_key=1)
    async with app.lifespan():
        assert app._runtime is not None
        producers = app._runtime.producers
        try:
            first = Call(app, key="a")
            await until(lambda: bool(first.packets))
            assert (await Call(app, key="a").end()).status == 429
            worker.go.set()
            await first.end()
            worker.go.clear()
            other = Call(app, key="b")  # a stream of somebody else takes no place either
            await until(lambda: bool(other.packets))
            assert len(producers) == 2
            second = Call(app, key="a")
            await until(lambda: bool(second.packets))
            assert (len(producers), second.status) == (3, 200)
        finally:
            worker.go.set()
            log.answers.set()
        await until(lambda: not len(producers))


@virtual
async def test_the_first_reason_to_stop_counts() -> None:
    async def stubborn(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        try:
            await asyncio.Event().wait()
        finally:
            await leave.wait()

    leave = asyncio.Event()
    app = AgentApp(stubborn, cancel_grace=5)
    async with app.lifespan():
        reader = Call(app)
        await until(lambda: bool(reader.packets))
        try:
            assert app._runtime is not None
            assert reader.stream_id is not None
            producer = app._runtime.producers.get(reader.stream_id)
            assert producer is not None
            producer.stop(CANCELLED)
            await virtual_loop().forward(1)
            app._runtime.producers.hand_over_or_stop(
                SERVER_STOPPED
            )  # a shutdown during the grace time
            await virtual_loop().forward(4)
            assert (await reader.end()).packets[-1].p.code == "cancelled"
        finally:
            leave.set()


@virtual
async def test_a_principal_that_is_gone_leaves_no_entry_in_the_tables() -> None:
    worker, body = Worker(), envelope()
    app = AgentApp(worker)
    async with app.lifespan():
        reader = await begun(app, body)
        assert app._runtime is not None
        producers = app._runtime.producers
        tables: list[Sized] = [producers._readers_of_stream, producers._units]
        tables += [producers.quotas._streams._used, producers.quotas._readers._used]
        assert list(map(len, tables)) == [1] * 4
        worker.go.set()
        await reader.end()
        await until(lambda: not len(producers))
        assert list(map(len, tables)) == [0] * 4
