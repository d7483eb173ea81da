"""The upkeep of a log of which parts fail, and what becomes of readers and ends meanwhile."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable

import httpx2
import pytest

from coreason_client.server import AgentApp, AgentStream, LogError, LogUnavailable, MemoryStreamLog
from coreason_client.server.engine import _upkeep
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import aio
from ..conftest import Serve
from ..faulty_log import (
    WRITES,
    Faulty,
    SharedFaulty,
    open_orphan,
    runtime_of,
    silent,
    start_stream,
)
from ..log.backends import Clock
from ..peer import LIMIT, Gate, envelope

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
        lost = await open_orphan(log)
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
    lost = await open_orphan(log)
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

        monkeypatch.setattr(upkeep, "_is_late", broken)
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
        other = await open_orphan(log)
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
