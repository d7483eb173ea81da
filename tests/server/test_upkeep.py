"""The upkeep of a log of which parts fail, and what becomes of readers and ends meanwhile."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from starlette.datastructures import Headers

from coreason_client.server import AgentApp, AgentStream, LogError, LogUnavailable, MemoryStreamLog
from coreason_client.server.engine import _orphans, _upkeep
from coreason_client.server.engine._conversation import dump_question, parse_turn
from coreason_client.server.engine._producers import CANCELLED, SERVER_STOPPED
from coreason_client.server.engine._runtime import Runtime
from coreason_client.server.log import Claim, Conversation, NewStream, StreamMeta
from coreason_client.server.observe._metrics import NO_METRICS, NOT_METERED
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio, turns
from .conftest import Serve
from .log.backends import Clock
from .peer import LIMIT, Gate, envelope

WRITES = ("open", "append", "close", "renew", "claim_lost", "add_turn")


class Faulty(MemoryStreamLog):
    """A log of which any method can be made to fail."""

    def __init__(self, *failing: str, **options: Any) -> None:
        super().__init__(**options)
        self.faults: dict[str, Exception] = {}
        self.calls: list[str] = []
        self.fail(*failing)

    def fail(self, *methods: str, error: Exception | None = None) -> None:
        self.faults |= dict.fromkeys(methods, error or LogUnavailable("the store is full"))

    def repair(self) -> None:
        self.faults.clear()

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "begin_append" and "append" in self.faults:
            raise self.faults["append"]
        if name not in (*WRITES, "expire", "read", "meta"):
            return value

        async def call(*args: Any) -> Any:
            self.calls.append(name)
            if name in self.faults:
                raise self.faults[name]
            return await value(*args)

        return call


class SharedFaulty(Faulty):
    shared = True


def runtime_of(app: AgentApp) -> Runtime:
    assert app._runtime is not None
    return app._runtime


async def silent(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("a")
    await asyncio.Event().wait()


async def orphan(log: MemoryStreamLog) -> UUID:
    """Open a stream that nobody writes to."""
    stream_id = uuid4()
    await log.open(NewStream(stream_id, "silent/anybody", uuid4(), "print"), "dead")
    return stream_id


async def start_stream(app: AgentApp, log: MemoryStreamLog) -> StreamMeta:
    """Set the agent to work without a reader."""
    request = ServiceRequest.model_validate(envelope())
    question = dump_question("silent/anybody", request)
    new = NewStream(uuid4(), "silent/anybody", request.request_id, "print", question)
    opened = await log.open(new, runtime_of(app).owner)
    runtime_of(app).producers.start(request, opened.meta, Headers({}), 0.0)
    await turns()
    return opened.meta


# The parts of the upkeep.


@pytest.mark.parametrize("error", [LogUnavailable("the store is full"), ZeroDivisionError("oops")])
@pytest.mark.parametrize("failing", ["renew", "claim_lost", "expire"])
@aio
async def test_one_part_that_fails_keeps_no_other_from_running(
    failing: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    log = Faulty(clock=clock)
    app = AgentApp(silent, log=log, drain_timeout=0.0)
    async with app.lifespan():
        upkeep = runtime_of(app).upkeep
        await start_stream(app, log)
        lost = await orphan(log)
        log.fail(failing, error=error)
        log.calls.clear()
        with caplog.at_level(logging.WARNING, "coreason_client.server"):
            await runtime_of(app).upkeep.once()
        assert {"renew", "claim_lost", "expire"} <= set(log.calls)
        assert not runtime_of(app).log_works
        [record] = caplog.records
        assert str(error) in record.getMessage()
        # A mistake has a traceback, a log that does not work has not.
        assert (record.exc_info is None) is isinstance(error, LogError)
        log.repair()
        clock.forward(log.lease + 1)
        upkeep._expired_at -= 60
        await runtime_of(app).upkeep.once()
        if failing == "renew":  # others may not have renewed their leases either
            await runtime_of(app).upkeep.once()
        assert (await log.meta(lost)).outcome == "producer_lost"
        assert runtime_of(app).log_works
        assert sum("works again" in r.getMessage() for r in caplog.records) == 1
        assert len(caplog.records) == 3  # and one about the stream


@aio
async def test_expiry_makes_room_for_the_renewal_of_the_same_upkeep() -> None:
    class Full(Faulty):
        async def expire(self, *_: float) -> None:
            self.repair()

    log = Full()
    app = AgentApp(silent, log=log, drain_timeout=0.0)
    async with app.lifespan():
        await start_stream(app, log)
        log.fail(*WRITES)
        log.calls.clear()
        await runtime_of(app).upkeep.once()
        assert log.calls[0] == "expire"
        assert runtime_of(app).log_works


@aio
async def test_a_start_on_a_full_log_makes_room_first() -> None:
    class Full(Faulty):
        async def expire(self, *_: float) -> None:
            self.repair()

    log = Full("claim_lost", "add_turn", "close")
    lost = await orphan(log)
    log._store.streams[lost].lease_until = 0.0
    async with AgentApp(silent, log=log).lifespan():
        assert (await log.meta(lost)).outcome == "producer_lost"
    log.fail("claim_lost", "expire")
    with pytest.raises(LogUnavailable):
        async with AgentApp(silent, log=log).lifespan():
            pass


def test_the_upkeep_of_a_log_that_keeps_failing_goes_on_and_is_reported_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    log = Faulty(lease=0.05)
    with caplog.at_level(logging.WARNING, "coreason_client.server"):
        peer = serve(silent, log=log)
        assert peer.http.get("/health").json()["status"] == "ok"
        log.fail("claim_lost", error=ZeroDivisionError("oops"))
        log.calls.clear()
        until(lambda: log.calls.count("claim_lost") > 4)
        assert peer.http.get("/health").json()["status"] == "degraded"
        log.repair()
        until(lambda: peer.http.get("/health").json()["status"] == "ok")
    part = "ending streams without a producer"
    lines = [line for record in caplog.records if part in (line := record.getMessage())]
    assert [line.startswith(f"{part} failed and will be retried: Zero") for line in lines] == [
        True,
        False,
    ]
    assert lines[1].startswith(f"{part} works again")


@aio
async def test_a_mistake_in_the_upkeep_itself_does_not_end_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = AgentApp(silent, log=MemoryStreamLog(lease=0.03))
    async with app.lifespan():
        upkeep, again = runtime_of(app).upkeep, asyncio.Event()

        def broken(**_: object) -> bool:
            if not runtime_of(app).log_works:
                again.set()
            raise ZeroDivisionError

        monkeypatch.setattr(upkeep, "_postpones_claims", broken)
        await again.wait()
    assert "the upkeep of the log failed and will be retried" in caplog.text
    assert "Traceback" in caplog.text


@aio
async def test_others_get_time_to_renew_after_the_store_was_full() -> None:
    clock = Clock()
    log = SharedFaulty(clock=clock)
    app = AgentApp(silent, log=log, drain_timeout=0.0)
    async with app.lifespan():
        await start_stream(app, log)
        other = await orphan(log)
        log.fail(*WRITES)
        clock.forward(log.lease + 1)
        for _ in range(4):
            await runtime_of(app).upkeep.once()
        log.repair()
        await runtime_of(app).upkeep.once()
        assert (await log.meta(other)).outcome is None  # its producer may live, and renew
        await runtime_of(app).upkeep.once()
        assert (await log.meta(other)).outcome == "producer_lost"


# Readers of streams that cannot be written.


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("how", ["complete", "raises", "cancelled"])
def test_readers_leave_at_once_when_the_end_cannot_be_written(serve: Serve, how: str) -> None:
    gate, log = Gate(), Faulty(lease=0.3)

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        if how == "raises":
            raise ZeroDivisionError

    peer, body = serve(agent, log=log), envelope()
    with pytest.raises(httpx2.RemoteProtocolError), peer.open(body) as answer:
        answer.until(1)
        gate.seen()
        log.fail(*WRITES)
        if how == "cancelled":
            peer.cancel(answer.stream_id)
        gate.open()
        answer.rest()  # the heartbeat is 15 s, so this is none
    refused = peer.ask(body, f"{answer.stream_id}:1")
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    code = {"complete": "producer_lost", "raises": "agent_error", "cancelled": "cancelled"}[how]
    with peer.open(body, answer.stream_id) as again:
        again.until(1)  # what is in the log is delivered all the same
        log.repair()
        again.rest()
    assert (again.seqs, again.last.p.code) == ([1, 2], code)
    assert peer.ask(body).packets == again.packets


@aio
async def test_an_end_is_written_when_the_log_works_again_with_its_reason_and_its_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Faulty()
    app = AgentApp(silent, log=log, drain_timeout=0.0)
    async with app.lifespan():
        runtime = runtime_of(app)
        metas = [await start_stream(app, log) for _ in range(3)]
        log.fail(*WRITES)
        for meta in metas:
            producer = runtime.producers.get(meta.stream_id)
            assert producer is not None
            producer.stop(CANCELLED)
        await runtime.producers.wait(LIMIT)
        await turns()
        assert len(runtime.orphans) == 3
        # One was ended by another process meanwhile, and one was dropped with its store.
        other, gone, own = metas
        log.repair()
        log._store.streams[other.stream_id].epoch = 2
        await log.close(other.stream_id, 2, 2, [b"end"], "producer_lost")
        del log._store.streams[gone.stream_id]
        with caplog.at_level(logging.INFO, "coreason_client.server"):
            await runtime.orphans.write_ends()
        assert len(runtime.orphans) == 0
        ended = await log.meta(own.stream_id)
        assert (ended.outcome, ended.last_seq) == ("cancelled", 2)
        assert (await log.meta(other.stream_id)).outcome == "producer_lost"
        [turn] = await log.turns(Conversation("silent/anybody", "s"), 10)
        assert (parse_turn(turn).outcome, parse_turn(turn).messages[-1].text) == ("cancelled", "a")
    [record] = [r for r in caplog.records if getattr(r, "event", "") == "stream_end_written"]
    assert record.__dict__["stream_id"] == str(own.stream_id)


@aio
async def test_a_packet_that_was_on_its_way_does_not_pass_for_the_end() -> None:
    """The close is taken for a repetition of that packet; the stream ends with the next attempt."""

    class Late(Faulty):
        late = True

        async def close(self, stream_id: UUID, epoch: int, seq: int, *rest: Any) -> None:
            if self.late:
                self.late = False
                await self.append(stream_id, epoch, seq, [b"late"])
            await super().close(stream_id, epoch, seq, *rest)

    log = Late()
    app = AgentApp(silent, log=log, drain_timeout=0.0)
    async with app.lifespan():
        runtime = runtime_of(app)
        meta = await start_stream(app, log)
        log.fail(*WRITES)
        runtime.producers.stop_all(SERVER_STOPPED)
        await runtime.producers.wait(LIMIT)
        await turns()
        log.repair()
        await runtime.orphans.write_ends()
        assert len(runtime.orphans) == 1
        await runtime.orphans.write_ends()
        assert len(runtime.orphans) == 0
        ended = await log.meta(meta.stream_id)
        assert (ended.outcome, ended.last_seq) == ("server_stopped", 3)


@aio
async def test_ends_that_wait_for_the_log_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_orphans, "_MAX_UNWRITTEN", 2)
    orphans = _orphans.Orphans(MemoryStreamLog(), "owner", NO_METRICS)
    ids = [uuid4() for _ in range(5)]
    for stream_id in ids:
        held = Claim(stream_id, 1, 0)
        orphans.add(_orphans.UnwrittenEnd(held, bytes, CANCELLED, NOT_METERED))
    assert [stream_id in orphans for stream_id in ids] == [False, False, False, True, True]
    await orphans.write_ends()  # the log does not know them
    assert len(orphans) == 0


def test_a_stream_that_its_agent_can_no_longer_write_is_ended_without_it(serve: Serve) -> None:
    """The agent does not care that the log refuses its packets, and goes on for ever."""
    gate, log = Gate(), Faulty(lease=0.3)

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        with contextlib.suppress(LogError):
            await stream.thought("b")
        await asyncio.Event().wait()

    peer, body = serve(agent, log=log, heartbeat=0.1, cancel_grace=0.0), envelope()
    with pytest.raises(httpx2.RemoteProtocolError), peer.open(body) as answer:
        answer.until(1)
        log.fail(*WRITES)
        gate.open()
        answer.rest()
    assert peer.ask(body, f"{answer.stream_id}:1").status == 503
    log.repair()

    def ended() -> bool:
        resumed = peer.ask(body, f"{answer.stream_id}:1")
        return resumed.status == 200 and resumed.last.p.code == "producer_lost"

    until(ended)


def test_readers_leave_when_the_producer_may_be_dead_and_nobody_can_end_its_stream(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_upkeep, "_CLAIMS_FAILED", 0.2)
    log = SharedFaulty(lease=0.3)
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        await stream.write("b")

    one = serve(AgentApp(agent, log=log, agent_id="one", drain_timeout=0.0))
    two = serve(AgentApp(agent, log=log, agent_id="one", drain_timeout=0.0, heartbeat=0.1))
    body = envelope()
    with one.open(body) as own, two.open(body) as other:
        own.until(1)
        other.until_raw(b":\n")  # it waits
        log.fail("claim_lost")
        with pytest.raises(httpx2.RemoteProtocolError):
            other.rest()
        assert two.ask(body, f"{own.stream_id}:1").status == 503
        gate.open()  # where the producer lives, nobody was disturbed
        own.rest()
    assert own.text == "ab"


# What an operator reads.


def test_each_stream_has_a_line_for_its_start_and_one_for_its_end(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    log, ended = Faulty(), threading.Semaphore(0)

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        if stream.question == "fail":
            log.fail(*WRITES)

    def look(record: logging.LogRecord) -> bool:
        if getattr(record, "event", "") == "stream_ended":
            ended.release()
        return True

    caplog.handler.addFilter(look)
    with caplog.at_level(logging.INFO, "coreason_client.server"):
        peer = serve(agent, log=log)
        answer = peer.ask(envelope("work"))
        assert ended.acquire(timeout=LIMIT)
        with pytest.raises(httpx2.RemoteProtocolError):
            peer.ask(envelope("fail"))
        assert ended.acquire(timeout=LIMIT)
        log.repair()
    fields = [vars(record) for record in caplog.records if hasattr(record, "event")]
    kinds = [field["event"] for field in fields]
    assert kinds[:4] == ["stream_started", "stream_ended"] * 2
    assert [field["stream_id"] for field in fields[:2]] == [answer.stream_id] * 2
    assert (fields[1]["outcome"], fields[1]["packets"]) == ("complete", 2)
    assert fields[1]["seconds"] >= 0
    assert (fields[3]["outcome"], fields[3]["packets"]) == ("not_written", 1)
