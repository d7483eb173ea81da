"""A drain: the server listens until its streams have ended, and a second signal ends it at once."""

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog, running
from coreason_client.server.log import Opened
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio, turns
from .peer import LIMIT, Answer, Gate, Peer, envelope
from .program import Program

# The second packet comes when a file is there.
PROGRAM = """
import asyncio, logging, sys
from pathlib import Path
from coreason_client.server import AgentApp, serve

async def agent(request, stream):
    await stream.write("a")
    while not Path(sys.argv[1]).exists():
        await asyncio.sleep(0.01)
    await stream.write("b")

logging.basicConfig(level=logging.INFO)
serve(AgentApp(agent, drain_timeout=60), port=0, log_level="info")
"""


class Shared(MemoryStreamLog):
    """A memory log that several processes could share, as far as an application can tell."""

    shared: ClassVar[bool] = True


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.mark.proves("RES2-11d")
def test_a_draining_server_serves_resumes_and_refuses_what_is_new(tmp_path: Path) -> None:
    go, body = tmp_path / "go", envelope()
    with Program(PROGRAM, go) as program:
        url = program.url()
        peer = Peer(url)
        with peer.open(body) as first:
            first.until(1)
            program.signal(signal.SIGTERM)
            first.until_raw(b"retry: ")
            assert peer.http.get("/health").json()["status"] == "maintenance"
            refused = peer.ask(envelope())
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert refused.problem["type"].endswith("shutting-down")
            again = {"X_Request_ID": body["request_id"]}
            with (
                peer.open(body, f"{first.stream_id}:1") as resumed,
                peer.open(body, **again) as joined,
            ):
                resumed.until_raw(b"retry: ")  # it is told too, and stays
                joined.until(1)
                go.touch()
                assert (resumed.rest().text, joined.rest().text) == ("b", "ab")
            assert first.rest().text == "ab"
        peer.close()
        assert program.end() == 0
        program.expect(r"draining: 1 streams, up to 60 seconds")
        program.expect(r"drained in \d+\.\d+ seconds")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port_of(url)), LIMIT)


def test_idle_connections_are_closed_at_the_end(tmp_path: Path) -> None:
    with Program(PROGRAM, tmp_path / "go") as program, Peer(program.url()).http as http:
        assert http.get("/health").status_code == 200
        with socket.create_connection(("127.0.0.1", port_of(program.url())), LIMIT) as idle:
            idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(65536).startswith(b"HTTP/1.1 200")
            program.signal(signal.SIGTERM)
            while idle.recv(65536):
                pass
        assert program.end() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_the_process_at_once(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with Program(PROGRAM, tmp_path / "never") as program:
        peer = Peer(program.url())
        with peer.open() as answer:
            answer.until(1)
            program.signal(number)
            answer.until_raw(b"retry: ")  # the drain, which would take a minute, has begun
            program.signal(number)
            with contextlib.suppress(httpx2.TransportError):
                answer.rest()
            assert program.end() == code
        peer.close()
        assert "Traceback" not in program.errors
        assert "drained" not in program.errors


# On a log that processes share.


@contextlib.contextmanager
def draining(app: AgentApp) -> Iterator[tuple[Peer, threading.Thread, threading.Event]]:
    """Serve until the event is set, and drain from then on."""
    stop = threading.Event()
    urls: list[str] = []
    ready = threading.Event()

    def serve_until() -> None:
        with running(app) as server:
            urls.append(server.url)
            ready.set()
            stop.wait(LIMIT)

    thread = threading.Thread(target=serve_until)
    thread.start()
    assert ready.wait(LIMIT)
    peer = Peer(urls[0])
    try:
        yield peer, thread, stop
    finally:
        stop.set()
        peer.close()
        thread.join(LIMIT)
        assert not thread.is_alive()


@pytest.mark.proves("RES2-11c")
def test_a_reader_that_comes_back_to_a_draining_server_stays() -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.write("b")

    body = envelope()
    with draining(AgentApp(agent, log=Shared(), drain_timeout=LIMIT)) as (peer, _, stop):
        with peer.open(body) as answer:
            answer.until(1)
            stop.set()
            answer.rest()
        assert answer.seqs == [1]
        assert answer.decoder.retry_ms is not None
        with peer.open(body, f"{answer.stream_id}:1") as back:
            back.until_raw(b"retry: ")
            gate.open()
            assert back.rest().text == "b"
            assert back.last.op == "CLOSE"


@pytest.mark.proves("RES2-11c")
def test_a_reader_of_anothers_stream_stays_until_the_drain_is_over() -> None:
    ours, theirs, log = Gate(), Gate(), Shared()

    def agent_with(gate: Gate) -> Any:
        async def agent(request: ServiceRequest, stream: AgentStream) -> None:
            await stream.write("a")
            await gate.wait()
            await stream.write("b")

        return agent

    other = AgentApp(agent_with(theirs), log=log, agent_id="one", drain_timeout=0)
    app = AgentApp(agent_with(ours), log=log, agent_id="one", drain_timeout=LIMIT)
    with running(other) as server, draining(app) as (peer, _, stop):
        elsewhere, body = Peer(server.url), envelope()
        with elsewhere.open(body) as source, peer.open() as own:
            source.until(1)
            own.until(1)
            stop.set()
            own.rest()
            with peer.open(body, f"{source.stream_id}:0") as late:
                late.until(1).until_raw(b"retry: ")
                ours.open()  # the last stream of the draining server ends
                late.rest()
                assert late.seqs == [1]
            theirs.open()
            assert source.rest().text == "ab"
        elsewhere.close()


@pytest.mark.proves("RES2-11c")
def test_readers_are_told_different_times_to_come_back() -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()

    body = envelope()
    app = AgentApp(agent, log=Shared(), drain_timeout=LIMIT)
    with draining(app) as (peer, _, stop), contextlib.ExitStack() as open_readers:
        answers: list[Answer] = []
        for _ in range(6):
            answers.append(open_readers.enter_context(peer.open(body)))
            answers[-1].until(1)
        stop.set()
        told = [answer.rest().decoder.retry_ms for answer in answers]
        gate.open()
    assert all(wait is not None and 500 <= wait <= 2000 for wait in told)
    assert len(set(told)) > 1  # by chance once in 10**15 times


# Without a network.


@contextlib.asynccontextmanager
async def asgi(app: AgentApp) -> Any:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://agent") as client:
        yield client


async def until(happened: Callable[[], bool]) -> None:
    """Let the event loop run until something has happened; the test's own limit bounds it."""
    while not happened():  # noqa: ASYNC110 - nothing tells when
        await asyncio.sleep(0.001)


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@aio
async def test_a_body_that_comes_after_the_shutdown_began_starts_nothing() -> None:
    app, begun, closing = AgentApp(hello), asyncio.Event(), asyncio.Event()
    content = httpx2.Request("POST", "http://agent", json=envelope()).content

    async def body() -> Any:
        yield content[:10]
        begun.set()
        await closing.wait()
        yield content[10:]

    async with asgi(app) as client, app.lifespan():
        headers = {"Content-Type": "application/json"}
        asking = asyncio.ensure_future(client.post("/assist", content=body(), headers=headers))
        await begun.wait()
        app.begin_shutdown()
        closing.set()
        answer = await asking
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


@aio
async def test_a_stream_let_in_while_others_were_ending_is_ended_too() -> None:
    opening, stopping, may_open, may_stop = (asyncio.Event() for _ in range(4))

    class Slow(MemoryStreamLog):
        async def open(self, *args: Any) -> Opened:
            if opening.is_set():  # not the first one
                await may_open.wait()
            opening.set()
            return await super().open(*args)

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopping.set()
            await may_stop.wait()

    app = AgentApp(agent, log=Slow(), drain_timeout=0, cancel_grace=LIMIT)
    async with asgi(app) as client, app.lifespan():
        first = asyncio.ensure_future(client.post("/assist", json=envelope()))
        await opening.wait()
        second = asyncio.ensure_future(client.post("/assist", json=envelope()))
        await turns(50)
        runtime = app._runtime
        assert runtime is not None
        drain = asyncio.ensure_future(app.drain())
        await stopping.wait()
        may_open.set()
        await until(lambda: len(runtime.producers) == 2)
        may_stop.set()
        await drain
        assert len(runtime.producers) == 0
        for answer in await asyncio.gather(first, second):
            assert b"server_stopped" in answer.content


@aio
async def test_readers_get_heartbeats_during_a_drain() -> None:
    gate = asyncio.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()

    app = AgentApp(agent, heartbeat=0.02, drain_timeout=LIMIT)
    async with app.lifespan():
        sent: list[bytes] = []
        body = httpx2.Request("POST", "http://agent", json=envelope()).content
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message.get("body", b""))

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/assist",
            "headers": [(b"content-type", b"application/json")],
            "query_string": b"",
        }
        asking = asyncio.ensure_future(app(scope, receive, send))
        await until(lambda: any(b"data:" in part for part in sent))
        app.begin_shutdown()
        await until(lambda: any(b"retry:" in part for part in sent))
        del sent[:]
        await until(lambda: any(part.startswith(b":") for part in sent))
        gate.set()
        await asking


@aio
async def test_the_log_says_how_long_a_drain_took(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "coreason_client.server"):
        app = AgentApp(hello, drain_timeout=1, cancel_grace=0.5)
        async with app.lifespan():
            pass
    events = {getattr(record, "event", ""): record for record in caplog.records}
    assert events["draining"].getMessage() == "draining: 0 streams, up to 1 seconds"
    assert events["drained"].getMessage().startswith("drained in 0.0")
    assert isinstance(events["draining"].__dict__["streams"], int)


@aio
async def test_a_new_request_is_refused_during_a_drain_before_its_body_comes() -> None:
    app, statuses = AgentApp(hello, drain_timeout=LIMIT), []
    async with app.lifespan():
        app.begin_shutdown()
        refused = asyncio.Event()

        async def receive() -> Any:
            await refused.wait()  # the body comes after the refusal only
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                refused.set()

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/assist",
            "headers": [(b"content-type", b"application/json")],
            "query_string": b"",
        }
        await app(scope, receive, send)
    assert statuses == [503]
