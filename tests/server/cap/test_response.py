"""A response takes one page after the other from the log, and nothing else."""

import asyncio
import json
import socket
import threading
import time
from typing import Any
from uuid import UUID

import pytest

from coreason_client.server import AgentApp, AgentStream, LogUnavailable, MemoryStreamLog, running
from coreason_client.server.log import Page
from coreason_client.server.log.base import PAGE_BYTES
from coreason_manifest.definitions.service import ServiceRequest

from ..conftest import Serve
from ..faulty_log import runtime_of
from ..peer import LIMIT, Gate, Peer, envelope, wait_for
from ..virtual import Call, until, virtual, virtual_loop

BLOCK = "x" * 100_000


class Counting(MemoryStreamLog):
    """A memory log that counts what readers take from it."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[int] = []

    async def read(
        self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
    ) -> Page:
        page = await super().read(stream_id, after_seq, limit, wait, after_epoch)
        self.pages.append(sum(map(len, page.entries)))
        return page


@pytest.mark.proves("RES2-8a", "RES2-8b")
@virtual
async def test_a_reader_that_is_stuck_holds_one_page_and_slows_no_producer() -> None:
    log, finished = Counting(), asyncio.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for _ in range(50):
            await stream.write(BLOCK)
        finished.set()

    body = envelope()
    app = AgentApp(agent, log=log)
    async with app.lifespan():
        reader = Call(app, body, stuck=True)
        await until(finished.is_set)
        assert app._runtime is not None
        await until(lambda: not len(app._runtime.producers))  # type: ignore[union-attr]
        assert reader.stream_id is not None
        assert (await log.meta(reader.stream_id)).outcome == "complete"
        # The producer has ended, and the reader is where it was: it took one page from the log.
        assert app._runtime.producers.readers == 1
        assert not reader.task.done()
        assert len(log.pages) == 1
        assert len(reader.raw) == log.pages[0] <= PAGE_BYTES + 2 * len(BLOCK)
        # A reader that takes what it gets is served meanwhile, and gets everything.
        other = await Call(app, body).end()
        assert [packet.seq for packet in other.packets] == list(range(1, 52))
        assert not reader.task.done()
        await reader.leave()


@pytest.mark.proves("RES2-8b")
def test_for_a_connection_that_is_stuck_the_server_keeps_one_page() -> None:
    """Over real sockets: the buffers of the system, one page, and not the rest of the stream."""
    log, finished = Counting(), threading.Event()
    blocks = 320

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for _ in range(blocks):
            await stream.write(BLOCK)
        finished.set()

    content = json.dumps(envelope()).encode()
    with running(AgentApp(agent, log=log, drain_timeout=0)) as server:
        peer = Peer(server.url)
        with socket.socket() as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.settimeout(LIMIT)
            stuck.connect(("127.0.0.1", server.port))
            stuck.sendall(
                b"POST /assist HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(content), content)
            )
            wait_for(finished)
            for _ in range(5):  # the server has time for whatever it would do now
                assert peer.http.get("/health").status_code == 200
            assert 0 < sum(log.pages) < blocks * len(BLOCK) / 2
        peer.close()


@pytest.mark.proves("RES2-8c")
@virtual
async def test_a_reader_that_is_stuck_is_cut_after_the_send_timeout() -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await stream.write("b")

    body = envelope()
    app = AgentApp(agent, send_timeout=30)
    async with app.lifespan():
        reader = Call(app, body, stuck=True)
        await until(lambda: bool(reader.raw))
        await virtual_loop().forward(29.9)
        assert not reader.task.done()
        await virtual_loop().forward(0.1)
        await until(reader.task.done)
        assert not reader.complete  # without an end, so the reader knows that something is missing
        assert reader.stream_id is not None
        resumed = await Call(app, body, f"{reader.stream_id}:{reader.packets[-1].seq}").end()
    assert reader.text + resumed.text == "ab"


class Broken(MemoryStreamLog):
    """A memory log from which nothing more can be read after the first packet."""

    async def read(
        self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
    ) -> Page:
        if after_seq > 0:
            raise LogUnavailable("the disk is gone")
        return await super().read(stream_id, after_seq, limit, wait, after_epoch)


@virtual
async def test_a_reader_gets_no_orderly_end_from_a_log_that_fails() -> None:
    go = asyncio.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await go.wait()

    app = AgentApp(agent, log=Broken())
    async with app.lifespan():
        reader = Call(app)
        await until(reader.task.done)
        assert reader.text == "a"
        assert not reader.complete
        go.set()


@virtual
async def test_a_reader_that_leaves_is_noticed_between_two_packets() -> None:
    go = asyncio.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await go.wait()

    app = AgentApp(agent)
    async with app.lifespan():
        reader = Call(app)
        await until(lambda: bool(reader.packets))
        assert app._runtime is not None
        assert app._runtime.producers.readers == 1
        await reader.leave()  # no packet comes, and no heartbeat is due
        assert app._runtime.producers.readers == 0
        go.set()


@pytest.mark.parametrize("parser", ["h11", "httptools"])
def test_a_reader_that_leaves_is_noticed_by_a_server_too(parser: str) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()

    app = AgentApp(agent, heartbeat=3600.0)
    with running(app, http=parser) as server:
        peer = Peer(server.url)
        with peer.open() as answer:
            answer.until(1)
            assert runtime_of(app).producers.readers == 1
        peer.close()
        deadline = time.monotonic() + LIMIT
        while runtime_of(app).producers.readers and time.monotonic() < deadline:
            time.sleep(0.01)
        assert runtime_of(app).producers.readers == 0
        gate.open()


@virtual
async def test_a_reader_is_asked_once_to_come_back_later() -> None:
    more: asyncio.Queue[str] = asyncio.Queue()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for _ in range(3):
            await stream.write(await more.get())
            await stream.thought("this sends what was written")

    app = AgentApp(agent, drain_timeout=60)
    async with app.lifespan():
        reader = Call(app)
        await until(lambda: reader.status == 200)
        app.begin_shutdown()
        await until(lambda: b"retry: " in reader.raw)
        for text in ("a", "b", "c"):
            more.put_nowait(text)
            await until(lambda text=text: text in reader.text)  # type: ignore[misc]
        await reader.end()
    assert reader.text == "abc"
    assert reader.raw.count(b"retry: ") == 1


def test_a_resume_at_the_latest_packet_of_a_running_stream_waits_for_the_next(
    serve: Serve,
) -> None:
    go: list[Any] = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        go.append((asyncio.get_running_loop(), event := asyncio.Event()))
        await event.wait()
        await stream.write("b")

    peer, body = serve(agent), envelope()
    with peer.open(body) as first:
        first.until(1)
    with peer.open(body, f"{first.stream_id}:1") as resumed:
        assert resumed.status == 200
        ((loop, event),) = go
        loop.call_soon_threadsafe(event.set)
        assert resumed.rest().text == "b"
