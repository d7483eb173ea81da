"""Steps that end in unusual ways: the stream goes on, and a restarted agent repeats nothing."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from coreason_client.server import AgentStream, LogUnavailable, StepFailed, StreamEnded
from coreason_client.server.durable._notes import Done, Policy
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import aio
from ..peer import envelope
from .simulated import survive
from .test_steps import Life


async def last(life: Life) -> Any:
    return (await life.notes())[-1]


@aio
async def test_a_step_that_ends_before_a_step_inside_it_lets_others_write() -> None:
    """`asyncio.gather` raises the first error and leaves the other step running."""
    life = Life()
    go_on = asyncio.Event()

    async def agent(stream: AgentStream) -> None:
        async def fails() -> None:
            await wrote.wait()
            raise ValueError

        async def lasts() -> None:
            await stream.write("inner")
            wrote.set()
            await go_on.wait()
            await stream.write("late")

        async def outer() -> None:
            await stream.write("outer")
            await asyncio.gather(stream.step("fails", fails), stream.step("lasts", lasts))

        wrote = asyncio.Event()
        with pytest.raises(StepFailed):
            await stream.step("outer", outer)
        async with asyncio.timeout(1):
            await stream.write("body")
        await stream.progress("x")

    await agent(await life.run())
    go_on.set()
    await asyncio.sleep(0.01)
    texts = await life.texts()
    assert texts[:3] == ["outer", "inner", "body"]
    await agent(await life.run())
    assert await life.texts() == texts


@pytest.mark.parametrize("how", ["code", "checkpoint", "policy"])
@aio
async def test_a_packet_that_is_refused_is_not_the_first_of_its_step(how: str) -> None:
    life = Life()

    async def agent(stream: AgentStream) -> None:
        async def refused() -> None:
            if how == "code":
                error = {"code": "Not Snake", "message": "m", "severity": "TRANSIENT"}
                await stream.write_packet("ERROR", error)
            else:
                await stream.write("x", checkpoint=object() if how == "checkpoint" else 1)

        with pytest.raises(StepFailed):
            policy: Policy = "resume" if how == "checkpoint" else "rerun"
            await stream.step("refused", refused, on_restart=policy)
        await stream.write("body")
        await stream.progress("x")

    await agent(await life.run())
    assert len(await life.texts()) == 2
    await agent(await life.run())
    assert len(await life.texts()) == 2
    assert not life.stops


@aio
async def test_an_error_message_that_is_not_unicode_is_stored() -> None:
    life = Life()

    async def agent(stream: AgentStream) -> None:
        async def fails() -> None:
            await stream.write("a")
            raise ValueError("file \udc80")

        with pytest.raises(StepFailed, match="file"):
            await stream.step("fails", fails)
        async with asyncio.timeout(1):
            await stream.write("body")

    await agent(await life.run())
    await agent(await life.run())


@pytest.mark.parametrize("error", [StreamEnded(uuid4()), LogUnavailable("another log")])
@aio
async def test_an_error_of_another_stream_is_an_outcome(error: Exception) -> None:
    life = Life()

    async def agent(stream: AgentStream) -> None:
        async def fails() -> None:
            await stream.write("a")
            raise error

        with pytest.raises(StepFailed):
            await stream.step("fails", fails)
        async with asyncio.timeout(1):
            await stream.write("body")

    await agent(await life.run())
    await agent(await life.run())


@aio
async def test_a_step_may_end_the_stream() -> None:
    life = Life()
    stream = await life.run()

    async def fails() -> str:
        await stream.fail("no_answer", "There is none.")
        return "ended"

    assert await stream.step("fails", fails) == "ended"
    assert (await life.log.meta(life.id)).outcome == "no_answer"


@aio
async def test_a_function_that_is_cancelled_from_inside_has_failed() -> None:
    """Its caller has not cancelled it, and would not do so again."""
    life = Life()

    async def agent(stream: AgentStream) -> None:
        async def waits() -> None:
            task = asyncio.ensure_future(asyncio.Event().wait())
            task.cancel()
            await task

        with pytest.raises(StepFailed, match="CancelledError"):
            async with asyncio.timeout(1):
                await stream.step("waits", waits)
        await stream.write("body")

    await agent(await life.run())
    await agent(await life.run())
    assert await life.texts() == ["body"]


@pytest.mark.parametrize("policy", ["fail", "resume"])
@aio
async def test_a_step_that_is_cancelled_while_its_beginning_is_stored(
    policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life()
    stream = await life.run()
    held = asyncio.Event()
    begin = life.log.begin_append

    def slow(*arguments: Any) -> Any:
        async def append() -> bool:
            await held.wait()
            return begin(*arguments)

        return asyncio.ensure_future(append())

    monkeypatch.setattr(life.log, "begin_append", slow)
    called = []

    async def function() -> None:
        called.append(1)

    task = asyncio.create_task(stream.step("pay", function, on_restart=policy))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    held.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not called
    assert await last(life) == Done("pay#1", "cancelled")
    assert not life.writer.journal.runs_once()


@aio
async def test_an_error_packet_that_was_rewound_does_not_end_the_stream() -> None:
    """An agent that stops at a TRANSIENT error has not finished its answer."""
    runs = 0

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        async def model() -> None:
            nonlocal runs
            runs += 1
            if runs == 1:
                error = {"code": "rate_limit", "message": "m", "severity": "TRANSIENT"}
                await stream.write_packet("ERROR", error)
            await stream.write("answer")

        await stream.step("model", model)

    body = envelope("question")
    body["payload"] |= {"capabilities": {"supported_events": ["REWIND"]}}
    got = await survive(agent, ServiceRequest.model_validate(body), [(1, False)])
    assert (runs, got.outcome) == (2, "complete")


@pytest.mark.parametrize("caught", [False, True])
@aio
async def test_a_step_that_waits_for_one_that_the_log_refused_ends(caught: bool) -> None:
    errors: list[object] = []

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        wrote = asyncio.Event()

        async def first() -> None:
            await stream.write("a")
            wrote.set()
            await asyncio.sleep(0)
            await stream.write("b")

        async def second() -> None:
            await wrote.wait()
            await stream.write("c")

        calls = [stream.step("first", first), stream.step("second", second)]
        for result in await asyncio.gather(*calls, return_exceptions=caught):
            errors.append(result)
            if isinstance(result, Exception):
                raise result

    request = ServiceRequest.model_validate(envelope("question"))
    async with asyncio.timeout(5):
        got = await survive(agent, request, [(1, False), (0, False)])
    assert got.outcome == "complete"
    assert [payload for op, payload in got.packets if op == "DELTA"] == ["a", "b", "c"]
    assert errors[-2:] == [None, None]
    assert all(isinstance(error, LogUnavailable) for error in errors[:-2])


@pytest.mark.parametrize("policy", ["rerun", "fail"])
@aio
async def test_a_step_that_continues_does_not_run_the_steps_again_that_have_ended(
    policy: Policy,
) -> None:
    life, paid = Life(), list[str]()

    async def pay(order: str) -> str:
        paid.append(order)
        await stream.write(f"paid {order} ")
        return f"receipt {order}"

    async def orders() -> None:
        for order in "ab":
            receipt = await stream.step("pay", pay, order, on_restart=policy)
            assert receipt == f"receipt {order}"
            if stream.resumed is None:
                await asyncio.Event().wait()

    stream = await life.run()
    running = asyncio.ensure_future(stream.step("orders", orders, on_restart="resume"))
    await life.until(notes=3 if policy == "rerun" else 4, texts=1)
    stream = await life.run()
    await stream.step("orders", orders, on_restart="resume")
    assert paid == ["a", "b"]
    assert await life.texts() == ["paid a ", "paid b "]
    assert life.writer.replay is None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@aio
async def test_a_step_that_continues_may_go_on_after_those_that_have_ended() -> None:
    """Then the numbers of its steps stand for other calls."""
    life, fetched = Life(), list[str]()

    async def fetch(page: str) -> str:
        fetched.append(page)
        return page

    async def copy() -> None:
        done = 0 if stream.resumed is None else stream.resumed.checkpoint
        for page in "abc"[done:]:
            text = await stream.step("fetch", fetch, page)
            done += 1
            await stream.write(text, checkpoint=done)
            if done == 2 and stream.resumed is None:
                await asyncio.Event().wait()

    stream = await life.run()
    running = asyncio.ensure_future(stream.step("copy", copy, on_restart="resume"))
    await life.until(texts=2)
    stream = await life.run()
    await stream.step("copy", copy, on_restart="resume")
    assert fetched == await life.texts() == ["a", "b", "c"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("at", [None, 0, 1, 2, 3])
@aio
async def test_a_step_that_waits_for_its_turn_does_not_write_after_the_end_of_its_caller(
    at: int | None,
) -> None:
    """A restarted agent, which does not run the caller again, would wait for it forever."""
    errors: list[BaseException] = []

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        begun, waiting = asyncio.Event(), asyncio.Event()

        async def write() -> None:
            await stream.write("a")
            await stream.write("b")
            begun.set()
            await asyncio.Event().wait()

        async def wait_and_write() -> None:
            await begun.wait()
            waiting.set()
            await stream.write("too late")

        async def outer() -> None:
            calls = [stream.step("write", write), stream.step("wait", wait_and_write)]
            tasks.extend(map(asyncio.ensure_future, calls))
            for task in tasks:  # a process that dies asks for no error
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
            await waiting.wait()
            await asyncio.sleep(0)

        tasks: list[asyncio.Future[None]] = []
        await stream.step("outer", outer)
        await stream.write("c")
        if tasks:  # the function was called in this run
            await asyncio.wait(tasks[1:])
            errors.append(tasks[1].exception() or AssertionError("it was written"))
            tasks[0].cancel()
            await asyncio.wait(tasks)

    deaths = [] if at is None else [(at, True)]
    async with asyncio.timeout(5):
        got = await survive(agent, ServiceRequest.model_validate(envelope("question")), deaths)
    assert got.outcome == "complete"
    assert [payload for op, payload in got.packets if op == "DELTA"] == ["a", "b", "c"]
    if at is None:
        [error] = errors
        assert "the step outer#1 has ended" in str(error)
