"""A durable agent that returns after a TRANSIENT error is started again."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.server import AgentApp, AgentStream, SQLiteStreamLog, running
from coreason_client.server.engine import _producer
from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError
from coreason_manifest.definitions.service import ServiceRequest

from ...soak.faults import until
from ..aio import aio
from ..peer import LIMIT, envelope
from .crash import replica
from .test_takeover import Store, ended


def error(retry_after: Any = 0, **members: Any) -> dict[str, Any]:
    details = {"retry_after": retry_after}
    return {"code": "busy", "message": "m", "severity": "TRANSIENT", "details": details, **members}


class Failing:
    """An agent whose first runs fail after a text; it keeps the number of its runs."""

    def __init__(self, failures: int, failure: Callable[[int], dict[str, Any]] | None = None):
        self.runs = 0
        self.failed = threading.Event()
        self._failures = failures
        self._failure = failure or (lambda _: error())

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        self.runs += 1
        await stream.write("one ")
        if self.runs <= self._failures:
            await stream.write_packet("ERROR", self._failure(self.runs))
            self.failed.set()
        else:
            await stream.write("two")


def durable(agent: Any, path: Path, **options: Any) -> AgentApp:
    return AgentApp(agent, log=SQLiteStreamLog(path / "log.db"), durable=True, **options)


def failure_of(app: AgentApp) -> StreamError:
    """Ask, and return the error that ends the stream."""
    with (
        running(app) as server,
        CAPClient(server.url, "key", reconnect_for=LIMIT) as client,
        pytest.raises(CAPRuntimeError) as caught,
    ):
        "".join(client.chat("question"))
    assert caught.value.stream_error is not None
    return caught.value.stream_error


@pytest.mark.parametrize("failures", [1, 2])
def test_the_retry_of_the_client_finds_the_answer_going_on(failures: int, tmp_path: Path) -> None:
    agent = Failing(failures)
    app = durable(agent, tmp_path)
    with running(app) as server, CAPClient(server.url, "key", reconnect_for=LIMIT) as client:
        assert "".join(client.chat("question")) == "one two"
    assert agent.runs == failures + 1


@pytest.mark.parametrize("max_restarts", [1, 2])
def test_the_stream_ends_with_the_error_when_the_restarts_are_used_up(
    max_restarts: int, tmp_path: Path
) -> None:
    agent = Failing(99)
    ended_with = failure_of(durable(agent, tmp_path, max_restarts=max_restarts))
    assert (ended_with.code, ended_with.severity) == ("busy", ErrorSeverity.FATAL)
    assert agent.runs == max_restarts + 1


def test_one_that_is_not_durable_ends_with_the_error() -> None:
    agent = Failing(1)
    assert (failure_of(AgentApp(agent)).code, agent.runs) == ("busy", 1)


def test_a_restart_that_fails_earlier_is_not_another_answer(tmp_path: Path) -> None:
    runs = 0

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        nonlocal runs
        runs += 1
        for text in ["one ", "two ", "three"]:
            if len(text) - 3 > {1: 1, 2: 0}.get(runs, 9):  # after the second text, then the first
                await stream.write_packet("ERROR", error(message=f"failure {runs}"))
                return
            await stream.write(text)

    app = durable(agent, tmp_path)
    with running(app) as server, CAPClient(server.url, "key", reconnect_for=LIMIT) as client:
        assert "".join(client.chat("question")) == "one two three"
    assert runs == 3


def test_a_step_that_has_ended_with_the_error_is_not_called_again(tmp_path: Path) -> None:
    """A restart cannot help, and a partial answer must not be taken for a complete one."""
    calls = 0

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        async def model() -> None:
            nonlocal calls
            calls += 1
            await stream.write_packet("ERROR", error())

        await stream.step("model", model)

    app = durable(agent, tmp_path, max_restarts=1)
    assert (failure_of(app).code, calls) == ("busy", 1)


# While it waits.


def test_a_cancellation_ends_the_wait(tmp_path: Path) -> None:
    agent, question = Failing(1, lambda _: error(retry_after=300)), envelope("question")
    with replica(tmp_path / "log.db", agent) as server:
        with server.peer.open(question) as answer:
            answer.until(2)
        assert agent.failed.wait(LIMIT)
        assert server.peer.cancel(answer.stream_id) == 204
        ended = server.peer.ask(question, f"{answer.stream_id}:2").last.p
    assert (ended.code, agent.runs) == ("cancelled", 1)


def test_another_process_continues_at_once_after_a_drain(tmp_path: Path) -> None:
    agent, question = Failing(1, lambda _: error(retry_after=300)), envelope("question")
    with replica(tmp_path / "log.db", agent) as first:
        with first.peer.open(question) as answer:
            answer.until(2)
        cursor = f"{answer.stream_id}:2"
        assert agent.failed.wait(LIMIT)
    with replica(tmp_path / "log.db", agent) as second:
        assert second.peer.ask(question, cursor).text == "two"
    assert agent.runs == 2


@pytest.mark.parametrize("fails", ["before", "after"])
@aio
async def test_a_drain_does_not_wait_for_the_restart(
    fails: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    drained, runs = asyncio.Event(), 0

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        nonlocal runs
        runs += 1
        await stream.write("one ")
        if runs == 1 and fails == "after":
            await drained.wait()
        if runs == 1:
            await stream.write_packet("ERROR", error(retry_after=300))
        else:
            await stream.write("two")

    def has_failed() -> bool:
        lines = [line for line in caplog.records if "started again in" in line.getMessage()]
        return runs == 1 and len(lines) == (fails == "before")

    store = Store(tmp_path)
    await store.orphan()
    app = store.app(agent, drain_timeout=300.0)
    async with app.lifespan():
        assert await until(has_failed)
        app.begin_shutdown()
        drained.set()
    async with store.serving(agent) as again:
        assert await ended(again, store.id) == ("complete", ["one ", "two"])


# The delay.


@example(10**400)  # has no float
@given(st.one_of(st.none(), st.text(), st.floats(), st.integers(), st.lists(st.integers())))
def test_what_an_error_asks_for_is_bounded(asked: Any) -> None:
    failure = StreamError(
        code="busy", message="m", severity=ErrorSeverity.TRANSIENT, details={"retry_after": asked}
    )
    delay = _producer._restart_delay(failure, 0)
    if isinstance(asked, int | float) and 0 <= asked <= 300:
        assert delay == asked
    else:
        assert delay == (300 if isinstance(asked, int | float) and asked > 300 else 1)


@pytest.mark.parametrize(("restarts", "delay"), [(0, 1), (1, 2), (4, 16), (5, 30), (20, 30)])
def test_it_grows_from_restart_to_restart(restarts: int, delay: float) -> None:
    failure = StreamError(code="busy", message="m", severity=ErrorSeverity.TRANSIENT)
    assert _producer._restart_delay(failure, restarts) == delay
