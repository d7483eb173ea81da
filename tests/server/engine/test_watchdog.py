"""A watched event loop, in this process and in one that is stopped."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coreason_client.server import AgentApp, AgentStream, ValkeyStreamLog
from coreason_client.server.engine import _watchdog
from coreason_client.server.engine._watchdog import LoopWatch, watch_loop
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import aio
from ..conftest import Serve
from ..log.valkey_server import fresh_prefix, shared_server
from ..peer import LIMIT, envelope


class Lines(logging.Handler):
    """The lines of the server, as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._news = threading.Condition()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self._news:
            self.records.append(record)
            self._news.notify_all()

    def of(self, event: str) -> list[logging.LogRecord]:
        return [r for r in self.records if getattr(r, "event", None) == event]

    def wait(self, event: str, count: int = 1) -> logging.LogRecord:
        with self._news:
            assert self._news.wait_for(lambda: len(self.of(event)) >= count, LIMIT), event
        return self.of(event)[count - 1]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("coreason_client.server")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def watchdogs() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "coreason-watchdog"]


def until_ended(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()


def test_what_blocks_the_event_loop_is_logged_with_its_stack(serve: Serve, lines: Lines) -> None:
    free = threading.Event()

    def blocks_everybody() -> None:
        assert free.wait(LIMIT)

    async def agent(request: ServiceRequest, stream: AgentStream) -> str:
        blocks_everybody()
        return "done"

    peer = serve(agent)
    asking = threading.Thread(target=peer.ask)
    asking.start()
    record = lines.wait("loop_blocked")
    free.set()
    asking.join(LIMIT)
    assert record.levelno == logging.WARNING
    assert vars(record)["seconds"] >= 1
    message = record.getMessage()
    assert "blocks_everybody()" in message
    assert "in agent" in message
    assert "asyncio.to_thread" in message
    assert "run_until_complete" not in message  # what runs the loop is not what blocks it
    unblocked = lines.wait("loop_unblocked")
    assert vars(unblocked)["seconds"] >= vars(record)["seconds"]


@aio
async def test_an_event_loop_has_one_watchdog_that_ends_with_the_last_application() -> None:
    before = watchdogs()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None: ...

    async with AgentApp(agent).lifespan():
        async with AgentApp(agent).lifespan():
            [mine] = [thread for thread in watchdogs() if thread not in before]
        assert mine.is_alive()
        assert mine.daemon
    await asyncio.to_thread(until_ended, [mine])
    assert asyncio.get_running_loop() not in _watchdog._watchdogs


def test_a_watchdog_ends_with_an_event_loop_that_nobody_stopped_in_order() -> None:
    before = watchdogs()

    async def watch() -> asyncio.AbstractEventLoop:
        watch_loop()
        return asyncio.get_running_loop()

    loop = asyncio.run(watch())
    until_ended([thread for thread in watchdogs() if thread not in before])
    assert loop not in _watchdog._watchdogs


@aio
async def test_a_watchdog_survives_its_mistakes(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    seen = threading.Semaphore(0)

    class Broken:
        def check(self, unresponsive: float, blocked: float) -> None:
            seen.release()
            raise ZeroDivisionError

    monkeypatch.setattr(_watchdog, "_INTERVAL", 0.02)
    leave = watch_loop(Broken())  # type: ignore[arg-type]
    for _ in range(3):
        # The loop is held up until it has happened, and again.
        assert seen.acquire(timeout=LIMIT)
        await asyncio.sleep(0)
    leave()
    leave()  # a second time changes nothing
    mistakes = [r for r in lines.records if "failed and continues" in r.getMessage()]
    assert len(mistakes) == 1
    assert mistakes[0].exc_info is not None


def test_a_loop_that_does_not_run_at_the_moment_is_not_blocked(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    looked = threading.Semaphore(0)
    reset = LoopWatch.reset

    def count(watch: Any) -> None:
        reset(watch)
        looked.release()

    monkeypatch.setattr(_watchdog, "_INTERVAL", 0.02)
    monkeypatch.setattr(LoopWatch, "reset", count)

    async def watch() -> Any:
        return watch_loop()

    with asyncio.Runner() as runner:
        leave = runner.run(watch())
        for _ in range(20):
            assert looked.acquire(timeout=LIMIT)
        leave()
    assert lines.of("loop_blocked") == []


def test_a_fork_has_no_watchdog_and_stops_in_order() -> None:
    """In a separate process: whoever forks this one forks its threads' locks too."""
    program = """
import asyncio, os, sys
from coreason_client.server.engine import _watchdog

async def main():
    leave = _watchdog.watch_loop()
    child = os.fork()
    if child == 0:
        leave()
        os._exit(7 if _watchdog._watchdogs else 0)
    _, status = os.waitpid(child, 0)
    leave()
    sys.exit(os.waitstatus_to_exitcode(status))

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0


SERVES = """
import logging, sys
from coreason_client.server import AgentApp, running

logging.basicConfig(level=logging.WARNING)

async def agent(request, stream): ...

with running(AgentApp(agent)) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def test_a_process_that_was_stopped_has_no_blocking_agent() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        time.sleep(2.0)  # the time that it is stopped for
        os.kill(process.pid, signal.SIGCONT)
        line = process.stderr.readline().decode()
        assert "this process did not run for" in line
    finally:
        process.kill()
        _, errors = process.communicate(timeout=LIMIT)
    assert b"blocks it" not in errors


LEASE = 1.5


@contextmanager
def asking(peer: Any, text: str) -> Iterator[list[Any]]:
    """Ask in the background; the answer is in the list at the end."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(peer.ask(envelope(text))))
    thread.start()
    yield answers
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_a_blocked_process_keeps_its_streams_on_a_shared_log(serve: Serve) -> None:
    """Longer than 3 s: the leases have to run out twice without the renewals."""
    prefix, free, ids = fresh_prefix(), threading.Event(), []
    started = threading.Semaphore(0)

    async def agent(request: ServiceRequest, stream: AgentStream) -> str:
        await stream.write("start ")
        ids.append(stream.stream_id)
        started.release()
        if stream.question == "block":
            assert free.wait(LIMIT)
        else:
            # It must still run when the other one blocks.
            assert await asyncio.to_thread(free.wait, LIMIT)
        return "end"

    log = ValkeyStreamLog(shared_server().url, prefix=prefix, lease=LEASE)
    peer = serve(agent, log=log)
    with asking(peer, "stand by") as bystanders:
        assert started.acquire(timeout=LIMIT)
        with asking(peer, "block") as blockers:
            assert started.acquire(timeout=LIMIT)
            metas = [f"{prefix}:{{{stream_id.hex}}}:meta" for stream_id in ids]
            first = max(leases(metas))
            deadline = time.monotonic() + LIMIT
            while min(leases(metas)) < first + 2 * LEASE:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            free.set()
    for answer in (*bystanders, *blockers):
        assert (answer.text, answer.last.op) == ("start end", "CLOSE")


def leases(metas: list[str]) -> list[float]:
    return [float(shared_server().command("HGET", meta, "lease")) for meta in metas]
