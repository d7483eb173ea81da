"""The steps of a durable agent: what is journaled when, and what a restarted agent gets."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from coreason_client import ArgumentError
from coreason_client._context import set_current_stream
from coreason_client.server import AgentStream, MemoryStreamLog, StepFailed, StreamEnded, step
from coreason_client.server.durable._journal import Journal
from coreason_client.server.durable._notes import Begun, Checkpoint, Done, Note, parse_note
from coreason_client.server.durable._packets import logged_packets
from coreason_client.server.durable._replay import Logged
from coreason_client.server.engine import _durable_writer
from coreason_client.server.engine._conversation import conversation_of, dump_turn, make_turn
from coreason_client.server.engine._durable_writer import DurableWriter, Origin
from coreason_client.server.engine._steps import JournaledSteps, Steps
from coreason_client.server.log import AgentVersion, NewStream
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import StreamError
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import aio
from ..peer import envelope
from ..streams import agent_stream

AGENT = AgentVersion("agent", "1")


class Life:
    """One durable stream, whose agent runs several times on the same log."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log = MemoryStreamLog(clock=lambda: self.now)
        self.request = ServiceRequest.model_validate(envelope("question"))
        self.id = uuid4()
        self.stops: list[StreamError] = []

    async def run(self) -> AgentStream:
        """Begin a run of the agent; an earlier one is fenced."""
        new = NewStream(self.id, "p", self.request.request_id, "print", b"q", AGENT)
        opened = await self.log.open(new, "me")
        journal = Journal()
        logged: tuple[Logged, ...] = ()
        if not opened.created:
            self.now += self.log.lease
            await self.log.claim_durable("me", AGENT, 1)
            journal = Journal(await self.notes())
            page = await self.log.read(self.id, 0, 1000, 0)
            logged = tuple(logged_packets(1, page.entries))
        meta = await self.log.meta(self.id)
        origin = Origin(journal, logged)
        self.writer = DurableWriter(self.request, meta, self.log, origin, on_stop=self.stops.append)
        self.writer.agent = asyncio.current_task()
        stream = AgentStream(self.writer, JournaledSteps(self.writer))
        set_current_stream(stream, durable=True)
        return stream

    async def notes(self) -> list[Note]:
        return list(map(parse_note, await self.log.journal(self.id)))

    async def until(self, *, notes: int = 0, texts: int = 0) -> None:
        """Wait until the log has so many notes and packets."""
        for _ in range(10_000):
            if len(await self.notes()) >= notes and len(await self.texts()) >= texts:
                return
            await asyncio.sleep(0.001)
        raise AssertionError("they did not come")

    async def texts(self) -> list[str]:
        page = await self.log.read(self.id, 0, 1000, 0)
        return [packet.content for packet in logged_packets(1, page.entries)]


class Calls:
    """A function that counts its calls."""

    def __init__(self, result: object = "result") -> None:
        self.count = 0
        self.result = result

    async def __call__(self, *arguments: object) -> Any:
        self.count += 1
        return self.result


# What is journaled, and when.


@pytest.mark.proves("DUR-2-journal")
@aio
async def test_a_result_is_stored_before_the_step_returns() -> None:
    life, calls = Life(), Calls([1, 2])
    stream = await life.run()
    assert await stream.step("search", calls, "query") == [1, 2]
    begun, done = await life.notes()
    assert isinstance(begun, Begun)
    assert (begun.path, begun.policy, begun.function) == ("search#1", "rerun", "Calls")
    assert done == Done("search#1", "result", [1, 2])


@pytest.mark.proves("DUR-2-journal")
@pytest.mark.parametrize("policy", ["fail", "resume"])
@aio
async def test_the_beginning_is_stored_before_a_step_that_must_not_start_unnoticed(
    policy: Any,
) -> None:
    life = Life()
    stream = await life.run()
    seen: list[Note] = []

    async def function() -> None:
        seen.extend(await life.notes())

    await stream.step("pay", function, on_restart=policy)
    [begun] = seen
    assert isinstance(begun, Begun)
    assert begun.policy == policy


@aio
async def test_the_beginning_of_other_steps_goes_with_their_first_packet() -> None:
    life = Life()
    stream = await life.run()

    async def function() -> None:
        assert await life.notes() == []
        await stream.write("a")
        [begun] = await life.notes()
        assert isinstance(begun, Begun)
        assert begun.first_seq == 1
        await stream.write("b")

    await stream.step("answer", function)
    assert (await life.notes())[-1] == Done("answer#1", "result", None, 2)


@pytest.mark.proves("DUR-2-journal")
@aio
async def test_no_note_overtakes_the_packets_before_it() -> None:
    life, calls = Life(), Calls()
    stream = await life.run()
    for text in ("a", "b", "c"):
        await stream.write(text)  # some of them are still waiting to be sent
    await stream.step("search", calls)
    assert await life.texts() == ["a", "b", "c"]


# Restarts.


@aio
async def test_a_finished_step_is_not_called_again() -> None:
    life, calls = Life(), Calls({"a": 1})
    for _ in range(3):
        stream = await life.run()
        assert await stream.step("search", calls, "query") == {"a": 1}
    assert calls.count == 1


@pytest.mark.proves("DUR-3-failures")
@aio
async def test_a_failure_is_an_outcome_in_every_run() -> None:
    life, count = Life(), 0

    async def function() -> None:
        nonlocal count
        count += 1
        raise LookupError("nothing found")

    for _ in range(2):
        stream = await life.run()
        with pytest.raises(StepFailed, match="the step search#1 failed") as caught:
            await stream.step("search", function)
        assert (caught.value.type, caught.value.message) == ("LookupError", "nothing found")
        assert caught.value.step == "search#1"
    assert count == 1


@aio
async def test_a_step_that_takes_too_long_fails() -> None:
    life = Life()
    for _ in range(2):
        stream = await life.run()
        with pytest.raises(StepFailed) as caught:
            await stream.step("slow", asyncio.sleep, 60, timeout=0.01)
        assert caught.value.type == "TimeoutError"
        assert caught.value.message == "it took longer than its timeout of 0.01 s"


@aio
async def test_a_plain_function_that_returns_a_coroutine_is_limited_too() -> None:
    stream = await Life().run()
    with pytest.raises(StepFailed, match=r"it took longer than its timeout of 0\.01 s"):
        await stream.step("slow", lambda: asyncio.sleep(60), timeout=0.01)


@aio
async def test_an_own_timeout_of_the_function_keeps_its_message() -> None:
    async def impatient() -> None:
        raise TimeoutError("the database did not answer")

    stream = await Life().run()
    with pytest.raises(StepFailed, match="the database did not answer"):
        await stream.step("impatient", impatient, timeout=60)


@pytest.mark.parametrize("result", [object(), "x" * 2_000_000])
@aio
async def test_a_result_that_cannot_be_stored_is_one_clear_error(result: object) -> None:
    life, calls = Life(), Calls(result)
    stream = await life.run()
    with pytest.raises(StepFailed, match="the result of the step search#1") as caught:
        await stream.step("search", calls)
    assert caught.value.type == "ResultError"


@pytest.mark.proves("DUR-3-failures")
@aio
async def test_a_cancelled_step_waits_to_be_cancelled_again_and_never_runs() -> None:
    life, calls = Life(), Calls()

    async def function() -> None:
        await calls()
        await asyncio.sleep(60)

    for _ in range(2):
        stream = await life.run()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.step("slow", function), 0.02)
    assert calls.count == 1
    assert [n.outcome for n in await life.notes() if isinstance(n, Done)] == ["cancelled"]


@pytest.mark.proves("DUR-3-failures")
@aio
async def test_a_step_that_is_stopped_by_the_producer_has_no_outcome() -> None:
    life = Life()
    stream = await life.run()
    running = asyncio.ensure_future(stream.step("slow", asyncio.sleep, 60))
    await asyncio.sleep(0)
    life.writer.cancelled = True
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await life.notes() == []


@aio
async def test_a_sealed_stream_accepts_nothing_whatever_the_agent_catches() -> None:
    life, calls = Life(), Calls()
    stream = await life.run()
    life.writer.seal()
    for _ in range(2):
        with pytest.raises(StreamEnded):
            await stream.write("a")
        with pytest.raises(StreamEnded):
            await stream.step("search", calls)
    assert (calls.count, await life.notes(), await life.texts()) == (0, [], [])


@aio
async def test_other_arguments_end_the_stream() -> None:
    life, calls = Life(), Calls()
    await (await life.run()).step("search", calls, "one")
    stream = await life.run()
    with pytest.raises(StreamEnded):
        await stream.step("search", calls, "two")
    [error] = life.stops
    assert error.code == "replay_diverged"
    assert "search#1 was called with other arguments" in error.message


@aio
async def test_an_interrupted_step_that_must_run_once_ends_the_stream() -> None:
    life = Life()
    stream = await life.run()
    paying = asyncio.ensure_future(stream.step("pay", asyncio.sleep, 60, on_restart="fail"))
    await life.until(notes=1)
    life.writer.give_up()  # the process dies
    paying.cancel()
    await asyncio.gather(paying, return_exceptions=True)
    stream = await life.run()
    with pytest.raises(StreamEnded):
        await stream.step("pay", asyncio.sleep, 60, on_restart="fail")
    assert [error.code for error in life.stops] == ["step_uncertain"]


@aio
async def test_a_step_continues_after_what_it_has_written() -> None:
    life = Life()
    stream = await life.run()
    seen: list[Any] = []

    async def function() -> None:
        seen.append(stream.resumed)
        if stream.resumed is None:
            await stream.checkpoint({"response": 7})
            await stream.write("a", checkpoint=1)
            await stream.write("b", checkpoint=2)
            await asyncio.sleep(60)
        await stream.write("c")

    running = asyncio.ensure_future(stream.step("answer", function, on_restart="resume"))
    await life.until(texts=2)
    assert Checkpoint("answer#1", {"response": 7}) in await life.notes()
    life.writer.give_up()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    stream = await life.run()
    await stream.step("answer", function, on_restart="resume")
    assert await life.texts() == ["a", "b", "c"]
    first, second = seen
    assert first is None
    assert (second.text, second.packets, second.checkpoint) == (
        "ab",
        (("DELTA", "a"), ("DELTA", "b")),
        2,
    )


@aio
async def test_a_checkpoint_belongs_to_a_step_that_resumes() -> None:
    stream = await Life().run()
    with pytest.raises(RuntimeError, match='on_restart="resume"'):
        await stream.checkpoint(1)
    with pytest.raises(StepFailed, match='on_restart="resume"'):
        await stream.step("s", functools.partial(stream.write, "a", checkpoint=1))


# Who may write.


@pytest.mark.proves("DUR-5-writers")
@aio
async def test_only_the_agent_itself_writes_outside_steps() -> None:
    life = Life()
    stream = await life.run()

    async def other() -> None:
        await stream.write("a")

    with pytest.raises(RuntimeError, match="only the task of a durable agent itself may write"):
        await asyncio.ensure_future(other())
    await asyncio.ensure_future(stream.step("answer", other))
    assert await life.texts() == ["a"]


@pytest.mark.proves("DUR-5-writers")
@aio
async def test_concurrent_steps_write_one_after_the_other() -> None:
    life = Life()
    stream = await life.run()

    async def function(name: str) -> None:
        for number in range(3):
            await stream.write(f"{name}{number}")
            await asyncio.sleep(0)

    await asyncio.gather(*(stream.step("part", function, name) for name in "ab"))
    assert await life.texts() == ["a0", "a1", "a2", "b0", "b1", "b2"]


@aio
async def test_a_step_that_wrote_and_is_not_called_again_does_not_block_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_durable_writer, "_MISSING_STEP_SECONDS", 0.01)
    life = Life()
    stream = await life.run()

    async def function() -> None:
        await stream.write("a")
        await asyncio.sleep(60)

    running = asyncio.ensure_future(stream.step("answer", function))
    await life.until(texts=1)
    life.writer.give_up()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    stream = await life.run()
    with pytest.raises(StreamEnded):
        await stream.write("something else")
    assert "answer#1 was not called again" in life.stops[0].message


# History.


@pytest.mark.proves("DUR-12-turns")
@aio
async def test_a_restarted_agent_gets_the_turns_of_its_first_run() -> None:
    life = Life()
    talk = conversation_of("p", life.request)
    turns = [make_turn([ChatMessage.user(f"question {n}")], f"answer {n}") for n in range(3)]
    await life.log.add_turn(talk, uuid4(), dump_turn(turns[0]))
    await life.log.add_turn(talk, uuid4(), dump_turn(turns[1]))
    first = await (await life.run()).history()
    await life.log.add_turn(talk, uuid4(), dump_turn(turns[2]))  # of another stream, meanwhile
    again = await (await life.run()).history()
    assert [message.text for message in first] == [message.text for message in again]
    assert len(first) == 4


@aio
async def test_a_turn_that_is_no_longer_there_ends_the_stream() -> None:
    life = Life()
    talk = conversation_of("p", life.request)
    await life.log.add_turn(talk, uuid4(), dump_turn(make_turn([ChatMessage.user("q")], "a")))
    await (await life.run()).history()
    life.log._store.conversations.clear()
    stream = await life.run()
    with pytest.raises(StreamEnded):
        await stream.history()
    assert [error.code for error in life.stops] == ["replay_diverged"]


# Replay beside other work.


@pytest.mark.proves("DUR-13-replay")
@aio
async def test_a_replay_gives_way_to_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life()
    stream = await life.run()
    for number in range(50):
        await stream.write(f"{number}")
    await life.writer._appender.flush()
    stream = await life.run()
    monkeypatch.setattr(_durable_writer, "monotonic", iter(range(1000)).__next__)
    ticks = 0

    async def other() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(other())
    for number in range(50):
        await stream.write(f"{number}")
    ticking.cancel()
    assert ticks >= 40
    assert len(await life.texts()) == 50


# Ready-made values.


@aio
async def test_times_and_ids_are_the_same_in_every_run() -> None:
    life = Life()
    runs: list[list[Any]] = []
    for _ in range(2):
        stream = await life.run()

        async def inner(stream: AgentStream = stream) -> list[str]:
            return [str(stream.uuid()), stream.step_key()]

        runs.append(
            [await stream.now(), await stream.now(), stream.uuid(), stream.uuid()]
            + await stream.step("a", inner)
            + await stream.step("b", inner)
        )
    assert runs[0] == runs[1]
    assert len(set(map(str, runs[0]))) == len(runs[0])
    assert abs((datetime.now(UTC) - runs[0][0]).total_seconds()) < 60


@aio
async def test_reports_of_tools_are_the_same_in_every_run() -> None:
    life = Life()
    runs: list[list[str]] = []
    for _ in range(2):
        stream = await life.run()

        async def call(stream: AgentStream = stream) -> str:
            return await stream.tool_call("find", {"city": "Oslo"})

        ids = [await stream.tool_call("find", {"city": "Rome"}), await stream.step("call", call)]
        for call_id in ids:
            await stream.tool_result(call_id, "blue")
        await stream.usage(prompt_tokens=1, completion_tokens=2)
        runs.append(ids)
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 2
    shown: list[Any] = await life.texts()  # each was written once, and nothing was rewound
    kinds = [event["type"] for event in shown]
    assert kinds == [*["TOOL_CALL"] * 2, *["TOOL_RESULT"] * 2, "USAGE"]
    assert life.stops == []


@aio
async def test_a_step_key_belongs_to_a_step() -> None:
    with pytest.raises(RuntimeError, match="can only be called in one"):
        (await Life().run()).step_key()


@aio
async def test_the_attempt_is_counted() -> None:
    life = Life()
    assert (await life.run()).attempt == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_restart": "again"}, 'on_restart must be "rerun", "fail" or "resume"'),
        ({"timeout": 0}, "timeout must be a number greater than 0, got 0"),
        ({"timeout": "3"}, "timeout must be a number greater than 0, got '3'"),
        ({"key": "a/b"}, "key must be a string"),
        ({"function": 3}, "function must be a function that was not called yet"),
    ],
)
@aio
async def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    stream = await Life().run()
    with pytest.raises(ArgumentError, match=message):
        await stream.step("a", **{"function": Calls(), **arguments})


@aio
async def test_a_key_that_was_used_is_refused_with_the_name_of_the_step() -> None:
    stream = await Life().run()
    await stream.step("a", Calls(), key="k")
    with pytest.raises(ArgumentError, match="key must be different in each call of the step 'a'"):
        await stream.step("a", Calls(), key="k")


@aio
async def test_the_warning_about_a_forgotten_await_names_the_step() -> None:
    stream = await Life().run()
    forgotten = [stream.step("a", Calls())]
    with pytest.warns(RuntimeWarning, match="coroutine 'step a#1' was never awaited"):
        forgotten.clear()


# Agents that are not durable.


@contextmanager
def plain_stream() -> Iterator[Callable[[], Awaitable[AgentStream]]]:
    async def make() -> AgentStream:
        log, request = MemoryStreamLog(), ServiceRequest.model_validate(envelope("q"))
        opened = await log.open(NewStream(uuid4(), "p", request.request_id, "f"), "me")
        stream = agent_stream(request, opened.meta, log)
        set_current_stream(stream, durable=True)
        return stream

    yield make


@aio
async def test_without_durable_a_step_is_just_called() -> None:
    with plain_stream() as make:
        stream = await make()
        calls = Calls((1, 2))
        assert await stream.step("search", calls) == [1, 2]  # the same as for a durable agent
        with pytest.raises(StepFailed):
            await stream.step("bad", functools.partial(int, "x"))
        assert (stream.attempt, stream.resumed) == (1, None)
        assert isinstance(await stream.now(), datetime)
        assert stream.uuid() != stream.uuid()
        await asyncio.gather(*(asyncio.ensure_future(stream.step("s", calls)) for _ in range(2)))
        await stream.write("a", checkpoint=1)
        assert isinstance(stream._steps, Steps)


# The decorator.


@step
async def double(number: int, *, plus: int = 0) -> int:
    return 2 * number + plus


@step(name="words", on_restart="fail")
def split(text: str) -> list[str]:
    return text.split()


@aio
async def test_a_decorated_function_is_a_step_of_the_agent_that_calls_it() -> None:
    life = Life()
    await life.run()
    assert await double(4, plus=1) == 9
    assert await split("a b") == ["a", "b"]
    paths = [note.path for note in await life.notes() if isinstance(note, Done)]
    assert paths == ["double#1", "words#1"]


@aio
async def test_a_decorated_function_can_be_the_function_of_a_step() -> None:
    life = Life()
    stream = await life.run()
    assert await stream.step("outer", double, 4) == 8
    assert await stream.step("outer", functools.partial(split, "a b")) == ["a", "b"]
    paths = [note.path for note in await life.notes() if isinstance(note, Done)]
    assert paths == ["outer#1/double#1", "outer#1", "outer#2/words#1", "outer#2"]


def test_a_decorated_function_can_be_called_outside_agents() -> None:
    assert asyncio.run(double(4)) == 8
    assert asyncio.run(split("a b")) == ["a", "b"]
    assert double.__name__ == "double"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_restart": "retry"}, "on_restart must be"),
        ({"timeout": -1}, "timeout must be a number greater than 0"),
        ({"name": ""}, "name must be a string of 1 to 200 characters"),
        ({"name": "a/b"}, "name must be a string of 1 to 200 characters"),
    ],
)
def test_wrong_options_of_the_decorator_are_refused_where_it_is_used(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        step(**options)(print)


def test_only_functions_can_be_decorated() -> None:
    wrong: Any = 3
    with pytest.raises(ArgumentError, match="function must be a function"):
        step(wrong)
