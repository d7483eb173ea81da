"""Streams over real HTTP: begun, joined, resumed, replayed, shared and slow."""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog, SQLiteStreamLog, running
from coreason_client.server.log import Page, StreamLog
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import (
    ErrorSeverity,
    PresentationEvent,
    PresentationEventType,
    StreamError,
    parse_packet,
)
from coreason_manifest.definitions.service import ServiceRequest

from .conftest import Serve
from .peer import LIMIT, Gate, Peer, envelope, wait_for


async def five(request: ServiceRequest, stream: AgentStream) -> None:
    for word in ("one ", "two ", "three ", "four ", "five"):
        await stream.write(word)


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Any) -> StreamLog:
    return MemoryStreamLog() if request.param == "memory" else SQLiteStreamLog(tmp_path / "l.db")


@pytest.mark.proves(
    "RFC002-3-handshake",
    "RFC002-3-transmission",
    "RFC002-3-termination",
    "RFC002-1-packet",
    "RES2-2a",
    "RES2-11b",
    "R13d",
    "R12e",
)
@pytest.mark.parametrize("path", ["/assist", "/v1/assist"])
def test_a_whole_answer(serve: Serve, log: StreamLog, path: str) -> None:
    peer = serve(five, log=log)
    body = envelope()
    with peer.open(body, path=path) as answer:
        answer.rest()  # the response ends by itself after CLOSE
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["x-request-id"] == body["request_id"]
    assert answer.text == "one two three four five"
    assert answer.seqs == [1, 2, 3, 4, 5, 6]
    assert [event.id for event in answer.events] == [
        f"{answer.stream_id}:{seq}" for seq in answer.seqs
    ]
    assert (answer.last.op, answer.last.p) == ("CLOSE", {"reason": "complete"})


@pytest.mark.proves("RES2-1a")
def test_each_generation_has_an_id_of_its_own(serve: Serve) -> None:
    peer = serve(five)
    ids = {UUID(peer.ask(envelope()).stream_id) for _ in range(3)}
    assert len(ids) == 3


@pytest.mark.proves("RES2-4c")
def test_the_memory_log_is_the_default() -> None:
    assert type(AgentApp(five).log) is MemoryStreamLog


@pytest.mark.proves("R02g", "RES2-1d", "RES2-9a")
def test_the_same_request_joins_the_same_stream(serve: Serve, log: StreamLog) -> None:
    gate, calls = Gate(), []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        calls.append(request.request_id)
        await stream.write("before ")
        await gate.wait()
        await stream.write("after")

    peer, body = serve(agent, log=log), envelope()
    with peer.open(body) as first:
        first.until(1)
    # The first reader has gone, and the producer did not go with it.
    with peer.open(body) as second, peer.open(body) as third:
        assert second.until(1).stream_id == third.until(1).stream_id == first.stream_id
        gate.open()
        assert second.rest().text == third.rest().text == "before after"
    again = peer.ask(body)
    assert again.stream_id == first.stream_id
    assert again.raw == second.raw
    reordered = json.dumps(dict(reversed(body.items())), indent=2).encode()
    assert peer.ask(reordered).raw == second.raw
    assert len(calls) == 1


@pytest.mark.proves("RES2-2b", "RES2-3", "R13e")
@pytest.mark.parametrize("after", [None, 0, 1, 3, 5])
def test_a_resume_gets_what_was_missed(serve: Serve, log: StreamLog, after: int | None) -> None:
    peer, body = serve(five, log=log), envelope()
    whole = peer.ask(body)
    cursor = whole.stream_id if after is None else f"{whole.stream_id}:{after}"
    assert peer.ask(body, cursor).seqs == [1, 2, 3, 4, 5, 6][after or 0 :]


def test_a_resume_at_the_very_end_has_nothing_to_wait_for(serve: Serve) -> None:
    peer, body = serve(five), envelope()
    whole = peer.ask(body)
    assert peer.ask(body, f"{whole.stream_id}:6").status == 204


@pytest.mark.proves("RES2-3", "RES2-promise-delivery")
def test_a_resume_in_the_middle_of_a_long_stream_reads_only_the_rest(serve: Serve) -> None:
    class Counting(MemoryStreamLog):
        read_entries = 0

        async def read(
            self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
        ) -> Page:
            page = await super().read(stream_id, after_seq, limit, wait, after_epoch)
            Counting.read_entries += len(page.entries)
            return page

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for number in range(3000):
            await stream.write(f"{number} ")

    peer, body = serve(agent, log=Counting()), envelope()
    whole = peer.ask(body)
    assert whole.seqs == list(range(1, 3002))
    assert whole.text.split() == [str(number) for number in range(3000)]
    Counting.read_entries = 0
    rest = peer.ask(body, f"{whole.stream_id}:2991")
    assert rest.seqs == list(range(2992, 3002))
    assert Counting.read_entries == 10


@pytest.mark.proves("RES2-0")
def test_nothing_is_delivered_that_is_not_in_the_log(serve: Serve) -> None:
    """Readers get the bytes of the log and nothing else: here the log answers in its own words."""

    class Translating(MemoryStreamLog):
        async def read(
            self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
        ) -> Page:
            page = await super().read(stream_id, after_seq, limit, wait, after_epoch)
            return Page(
                [entry.replace(b"two", b"TWO") for entry in page.entries], page.ended, page.epoch
            )

    assert serve(five, log=Translating()).ask().text == "one TWO three four five"


@pytest.mark.proves("RES2-promise-delivery")
def test_cut_anywhere_and_resumed_everything_comes_once_and_in_order(
    serve: Serve, log: StreamLog
) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for number in range(200):
            await stream.write(f"{number} ")
            if number % 20 == 0:
                await asyncio.sleep(0)

    peer, body = serve(agent, log=log), envelope()
    seqs: list[int] = []
    text, cursor, closed = "", None, False
    while not closed:
        with peer.open(body, cursor) as answer:
            answer.until(1)  # then the connection is dropped with what is in flight
            taken = answer.packets[: 1 + len(seqs) % 17]
        seqs += [packet.seq for packet in taken]
        text += "".join(packet.p for packet in taken if packet.op == "DELTA")
        cursor = f"{answer.stream_id}:{seqs[-1]}"
        closed = taken[-1].op == "CLOSE"
    assert seqs == list(range(1, 202))
    assert text.split() == [str(number) for number in range(200)]


def test_the_first_packet_comes_before_the_agent_goes_on(serve: Serve) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("now")
        await gate.wait()

    with serve(agent).open() as answer:
        assert answer.until(1).text == "now"
        gate.open()
        assert answer.rest().last.op == "CLOSE"


# Agents.


def test_a_generator_is_an_agent(serve: Serve) -> None:
    async def agent(request: ServiceRequest) -> AsyncIterator[Any]:
        yield "a"
        yield PresentationEvent(type=PresentationEventType.THOUGHT_TRACE, data={"content": "hm"})
        yield {"free": "form"}
        yield StreamError(code="slow_day", message="m", severity=ErrorSeverity.WARNING)
        yield "b"

    answer = serve(agent).ask()
    assert [packet.op.value for packet in answer.packets] == [
        "DELTA",
        "EVENT",
        "EVENT",
        "ERROR",
        "DELTA",
        "CLOSE",
    ]


def test_a_generator_may_take_the_stream_too(serve: Serve) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> AsyncIterator[str]:
        await stream.thought("hm")
        yield "a"

    assert [packet.op.value for packet in serve(agent).ask().packets] == [
        "EVENT",
        "DELTA",
        "CLOSE",
    ]


@pytest.mark.proves("RFC005-agent-same-shape", "RES2-1c")
@pytest.mark.parametrize("kind", ["function", "generator", "wrong yield"])
def test_an_agent_that_raises_ends_its_stream_without_telling_why(
    serve: Serve, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    async def function(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("half")
        raise RuntimeError("password=hunter2")

    async def generator(request: ServiceRequest) -> AsyncIterator[str]:
        yield "half"
        raise RuntimeError("password=hunter2")

    async def wrong(request: ServiceRequest) -> AsyncIterator[Any]:
        yield "half"
        yield 7

    agents = {"function": function, "generator": generator, "wrong yield": wrong}
    with caplog.at_level(logging.ERROR, "coreason_client.server"):
        answer = serve(agents[kind]).ask()
    assert answer.seqs == [1, 2]
    assert isinstance(answer.last.p, StreamError)
    assert (answer.last.p.code, answer.last.p.severity) == ("agent_error", ErrorSeverity.FATAL)
    assert b"hunter2" not in answer.raw
    assert "Traceback" in caplog.text


def test_the_agent_sees_earlier_turns_of_its_own_key(serve: Serve, log: StreamLog) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        said = [message.text for message in await stream.history()]
        await stream.write(" / ".join([*said, (request.payload.messages or [])[0].text.upper()]))

    peer = serve(agent, key="a", log=log, api_keys=["a", "b"])
    assert peer.ask(envelope("one")).text == "ONE"
    assert peer.ask(envelope("two")).text == "one / ONE / TWO"
    assert peer.ask(envelope("three", session="other")).text == "THREE"
    stranger = Peer(str(peer.http.base_url), "b")
    assert stranger.ask(envelope("four")).text == "FOUR"
    stranger.close()


# Readers.


@pytest.mark.proves("RES2-11a")
def test_a_quiet_stream_is_kept_alive_by_comments(serve: Serve) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await gate.wait()

    with serve(agent, heartbeat=0.02).open() as answer:
        answer.until_raw(b":\n\n:\n\n:\n\n")
        gate.open()
        answer.rest()
    assert answer.seqs == [1]
    assert AgentApp(five)._options.heartbeat == 15.0


@pytest.mark.proves("RES2-8c")
def test_a_reader_that_takes_nothing_is_cut_and_holds_up_nobody(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    block = "x" * 100_000
    cut, finished = threading.Event(), threading.Event()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "was disconnected" in record.getMessage():
                cut.set()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for _ in range(80):
            await stream.write(block)
        finished.set()

    logger = logging.getLogger("coreason_client.server")
    watch = Watch()
    logger.addHandler(watch)
    try:
        with caplog.at_level(logging.INFO, logger.name):
            peer, body = serve(agent, send_timeout=0.5), envelope()
            address = (peer.http.base_url.host, peer.http.base_url.port)
            with socket.create_connection(address, timeout=LIMIT) as stuck:
                stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                content = json.dumps(body).encode()
                stuck.sendall(
                    b"POST /assist HTTP/1.1\r\nHost: localhost\r\n"
                    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                    % (len(content), content)
                )
                wait_for(finished)  # though nobody reads
                wait_for(cut)
                whole = peer.http.post("/assist", json=body)
    finally:
        logger.removeHandler(watch)
    packets = [parse_packet(event.data_bytes) for event in SSEDecoder().feed(whole.content)]
    assert [packet.seq for packet in packets] == list(range(1, 82))


@pytest.mark.proves("RES2-9c")
def test_an_abandoned_producer_is_cancelled_after_a_grace_time(serve: Serve) -> None:
    gate, told = Gate(), threading.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        try:
            await gate.wait()
        except asyncio.CancelledError:
            assert stream.cancelled
            told.set()
            raise

    peer, body = serve(agent, on_abandoned="cancel", abandon_grace=0.05), envelope()
    with peer.open(body) as answer:
        answer.until(1)
        assert not told.is_set()
    wait_for(told)
    assert peer.ask(body).last.p.code == "abandoned"


# Cancel.


@pytest.mark.proves("RES2-9d")
def test_a_stream_can_be_cancelled(serve: Serve, log: StreamLog) -> None:
    gate, seen = Gate(), []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        try:
            await gate.wait()
        except asyncio.CancelledError:
            seen.append(stream.cancelled)
            raise

    peer = serve(agent, log=log)
    with peer.open() as answer:
        answer.until(1)
        assert peer.cancel(answer.stream_id) == 204
        answer.rest()
    assert answer.seqs == [1, 2]
    assert (answer.last.p.code, answer.last.p.severity) == ("cancelled", ErrorSeverity.FATAL)
    assert seen == [True]
    assert peer.cancel(answer.stream_id) == 204  # once more changes nothing


def test_an_agent_that_ignores_its_cancellation_does_not_hold_the_stream(serve: Serve) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        while True:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
            return

    peer = serve(agent, cancel_grace=0.05)
    with peer.open() as answer:
        answer.until(1)
        assert peer.cancel(answer.stream_id) == 204
        assert answer.rest().last.p.code == "cancelled"
        gate.open()


def test_an_agent_may_say_goodbye(serve: Serve) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        try:
            await gate.wait()
        finally:
            await stream.write(" bye")

    peer = serve(agent)
    with peer.open() as answer:
        answer.until(1)
        peer.cancel(answer.stream_id)
        assert answer.rest().text == "a bye"
    assert answer.last.p.code == "cancelled"


def test_a_cancel_by_another_application_on_the_log_is_seen(serve: Serve) -> None:
    """As with replicas: the flag in the log is all that the producer's process learns."""
    gate, log = Gate(), MemoryStreamLog()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.thought("this append brings the news")
        await asyncio.Event().wait()

    peer = serve(agent, log=log, agent_id="one")
    other = serve(agent, log=log, agent_id="one")
    with peer.open() as answer:
        answer.until(1)
        assert other.cancel(answer.stream_id) == 204
        gate.open()
        assert answer.rest().last.p.code == "cancelled"


def test_any_application_on_the_log_serves_any_resume(serve: Serve) -> None:
    gate, log = Gate(), MemoryStreamLog()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.write("b")

    peer, body = serve(agent, log=log, agent_id="one"), envelope()
    other = serve(agent, log=log, agent_id="one")
    with peer.open(body) as answer:
        answer.until(1)
    with other.open(body, f"{answer.stream_id}:1") as resumed:
        gate.open()
        assert resumed.rest().text == "b"


# Around it.


def test_health(serve: Serve) -> None:
    peer = serve(five, agent_id="counter", version="7", api_keys=["k"])
    answer = peer.http.get("/health")
    assert answer.status_code == 200
    document = answer.json()
    assert document.pop("uptime_seconds") >= 0
    assert document == {"status": "ok", "agent_id": "counter", "version": "7"}


def test_cors_lets_a_browser_resume(serve: Serve) -> None:
    peer = serve(five, cors_origins=["https://app.example"])
    wanted = "authorization,content-type,last-event-id,x-request-id"
    preflight = peer.http.options(
        "/assist",
        headers={
            "Origin": "https://app.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": wanted,
        },
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://app.example"
    allowed = preflight.headers["access-control-allow-headers"].lower()
    assert all(name in allowed for name in wanted.split(","))
    answer = peer.ask(Origin="https://app.example")
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    foreign = peer.ask(Origin="https://evil.example")
    assert "access-control-allow-origin" not in foreign.headers


def test_without_cors_origins_no_browser_is_let_in(serve: Serve) -> None:
    answer = serve(five).ask(Origin="https://app.example")
    assert "access-control-allow-origin" not in answer.headers


def test_an_id_missing_in_the_body_comes_from_the_header(serve: Serve) -> None:
    peer, request_id = serve(five), str(uuid4())
    body = envelope()
    del body["request_id"]
    first = peer.ask(body, X_Request_ID=request_id)
    assert first.headers["x-request-id"] == request_id
    assert peer.ask(body, X_Request_ID=request_id).stream_id == first.stream_id
    assert peer.ask(body, X_Request_ID="not a uuid").stream_id != first.stream_id


def test_streams_do_not_disturb_each_other(serve: Serve) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        name = (request.payload.messages or [])[0].text
        for number in range(50):
            await stream.write(f"{name}{number} ")

    peer = serve(agent)
    texts: dict[str, str] = {}

    def ask(name: str) -> None:
        texts[name] = peer.ask(envelope(name)).text

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    for name in "abcdefgh":
        assert texts[name].split() == [f"{name}{number}" for number in range(50)]


def test_one_log_in_two_agents_keeps_them_apart(serve: Serve, tmp_path: Any) -> None:
    log = SQLiteStreamLog(tmp_path / "l.db")
    one, two = serve(five, log=log, agent_id="one"), serve(five, log=log, agent_id="two")
    body = envelope()
    first, second = one.ask(body), two.ask(body)
    assert first.stream_id != second.stream_id
    assert two.ask(body, first.stream_id).status == 404


def test_the_running_helper_serves_any_application() -> None:
    async def hello(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    with running(hello) as server:
        peer = Peer(server.url)
        assert peer.http.get("/").status_code == 204
        peer.close()
