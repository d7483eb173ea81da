"""Cancelling, contexts and timeouts of the steps of a durable agent."""

import asyncio
import contextvars
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coreason_client.server import AgentApp, AgentStream, StepFailed
from coreason_manifest.definitions.service import ServiceRequest

from ..faulty_log import runtime_of
from ..observe.test_metrics import until
from ..peer import Gate, envelope
from .crash import LEASE, MortalSQLite, replica

var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="unset")


class InStep:
    """An agent that waits in a step, with a chosen policy."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.gate = Gate()
        self.calls = 0
        self.cancelled = threading.Event()

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        async def work() -> None:
            self.calls += 1
            await stream.write("begun")
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise

        await stream.step("work", work, on_restart=self.policy)
        await stream.write(" and ended")


@pytest.mark.parametrize("policy", ["rerun", "fail", "resume"])
def test_a_cancelled_stream_ends_and_is_not_continued(tmp_path: Path, policy: str) -> None:
    agent, path, body = InStep(policy), tmp_path / "streams.db", envelope()
    with replica(path, agent) as process, process.peer.open(body) as answer:
        answer.until(1)
        agent.gate.seen()
        assert process.peer.cancel(answer.stream_id) == 204
        assert answer.rest().last.p.code == "cancelled"
        assert agent.cancelled.wait(10)
    with replica(path, agent, metrics=True) as process:
        assert process.peer.ask(body).last.p.code == "cancelled"
        found = until(process.peer, lambda found: found("streams_open") == 0)
        assert found("restarts_total", cause="producer_lost") == 0
    assert agent.calls == 1


@pytest.mark.parametrize("policy", ["rerun", "fail", "resume"])
def test_a_stream_that_was_to_be_cancelled_is_not_started_again(
    tmp_path: Path, policy: str
) -> None:
    """The process dies before it can end the stream."""
    agent, path, body = InStep(policy), tmp_path / "streams.db", envelope()
    with replica(path, agent) as process, process.peer.open(body) as answer:
        answer.until(1)
        agent.gate.seen()
        process.die()
        process.peer.cancel(answer.stream_id)
    with replica(path, agent, metrics=True) as process:
        assert process.peer.ask(body).last.p.code == "cancelled"
        found = until(process.peer, lambda found: found("streams_open") == 0)
        assert found("streams_ended_total", outcome="cancelled") == 1
        assert found("packets_appended_total", op="ERROR") == 1
        assert found("takeovers_total") == found("restarts_total", cause="producer_lost") == 0
    assert agent.calls == 1


def test_a_step_sees_the_context_of_its_caller(tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        async def in_task() -> None:
            seen["async"] = var.get()

        def in_thread() -> None:
            seen["thread"] = var.get()
            var.set("of the thread")

        async def child() -> None:
            var.set("of the child")
            await stream.step("child", in_child)

        async def in_child() -> None:
            seen["child"] = var.get()
            await stream.write("written by a step of another task")

        var.set("of the agent")
        await stream.step("async", in_task)
        await stream.step("thread", in_thread)
        await asyncio.create_task(child())
        seen["after"] = var.get()

    with replica(tmp_path / "streams.db", agent) as process:
        assert process.peer.ask().last.op == "CLOSE"
    assert seen == {
        "async": "of the agent",
        "thread": "of the agent",
        "child": "of the child",
        "after": "of the agent",
    }


def test_a_restarted_agent_sees_no_context_of_another_request(tmp_path: Path) -> None:
    """In an application without a lifespan, any request may start the server."""
    path, gate, seen = tmp_path / "streams.db", Gate(), list[str]()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.thought("begun")
        if stream.attempt == 1:
            await gate.wait()
        seen.append(var.get())

    with replica(path, agent) as process:
        with process.peer.open() as answer:
            answer.until(1)
        gate.seen()
        process.die()

    async def scene() -> None:
        app = AgentApp(agent, log=MortalSQLite(path, lease=LEASE), durable=True, drain_timeout=0)
        var.set("of another request")
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            await http.get("/ready")
            while not seen:  # noqa: ASYNC110 - the agent runs in this loop
                await asyncio.sleep(0.01)
        await runtime_of(app).stop()

    asyncio.run(asyncio.wait_for(scene(), 20))
    assert seen == ["unset"]


@pytest.mark.parametrize("kind", ["task", "thread"])
def test_what_outlives_its_step_cannot_write(tmp_path: Path, kind: str) -> None:
    """Otherwise a restarted agent would not know whose packet it is."""
    failures: list[str] = []
    ended, tried = threading.Event(), threading.Event()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        loop, left = asyncio.get_running_loop(), asyncio.Event()
        tasks: list[asyncio.Task[None]] = []

        async def late() -> None:
            await left.wait()
            try:
                await stream.write("late")
            except RuntimeError as error:
                failures.append(str(error))
            try:
                await stream.step("late", late)
            except RuntimeError as error:
                failures.append(str(error))

        def late_in_thread() -> None:
            assert ended.wait(10)
            asyncio.run_coroutine_threadsafe(late(), loop).result(10)
            tried.set()

        async def step() -> None:
            tasks.append(asyncio.create_task(late()))

        if kind == "task":
            await stream.step("begin", step)
            left.set()
            await asyncio.wait(tasks)
        else:
            with pytest.raises(StepFailed):
                await stream.step("begin", late_in_thread, timeout=0.01)
            left.set()
            ended.set()
            assert await asyncio.to_thread(tried.wait, 10)
        await stream.write("end")

    with replica(tmp_path / "streams.db", agent) as process:
        answer = process.peer.ask()
    assert answer.text == "end"
    assert len(failures) == 2
    assert all("the step begin#1 has ended" in failure for failure in failures)


@pytest.mark.parametrize("plain", [False, True])
def test_a_timeout_is_an_outcome_and_is_not_waited_for_again(
    tmp_path: Path, *, plain: bool
) -> None:
    path, body, gate, release = tmp_path / "streams.db", envelope(), Gate(), threading.Event()
    calls: list[int] = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        async def slow() -> None:
            calls.append(stream.attempt)
            await asyncio.Event().wait()

        def slow_in_thread() -> None:
            calls.append(stream.attempt)
            release.wait(10)

        try:
            await stream.step("slow", slow_in_thread if plain else slow, timeout=0.01)
        except StepFailed as error:
            await stream.thought(error.type)
        if stream.attempt == 1:
            await gate.wait()

    try:
        with replica(path, agent) as process:
            with process.peer.open(body) as answer:
                answer.until(1)
            gate.seen()
            process.die()
        with replica(path, agent) as process:
            answer = process.peer.ask(body)
    finally:
        release.set()
    assert [packet.op for packet in answer.packets] == ["EVENT", "CLOSE"]
    assert answer.payloads[0].data["content"] == "TimeoutError"
    assert calls == [1]
