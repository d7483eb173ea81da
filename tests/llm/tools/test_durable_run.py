"""Runs in a durable agent whose process dies at any append."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from coreason_client import ServiceRequest
from coreason_client._context import set_current_stream
from coreason_client.llm import (
    LLMRateLimitError,
    Response,
    TextDelta,
    Tool,
    ToolAbort,
    ToolCallFinished,
    ToolCallStarted,
)
from coreason_client.llm.tools._run_async import AsyncRun
from coreason_client.server import AgentStream
from tests.agents.durable import request, run, shown, text, undisturbed
from tests.server.durable.simulated import Answer

from .answers import MESSAGES, response
from .scripted import Model

ADD = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
SCRIPT = [
    response(*ADD, content="Let me see. "),
    response(("now", {})),
    response(content="3 and 7."),
]


class World:
    """The tools, with what they have done; it outlives the process."""

    def __init__(self) -> None:
        self.added: list[tuple[int, int]] = []
        self.ticks = itertools.count()

    async def add(self, a: int, b: int) -> int:
        self.added.append((a, b))
        return a + b

    def now(self) -> int:
        return next(self.ticks)

    @property
    def tools(self) -> list[Any]:
        return [self.add, self.now]


Agent = Callable[[ServiceRequest, AgentStream], Any]


def agent(model: Model, tools: list[Any], *, streamed: bool, in_step: bool = False) -> Agent:
    """Return an agent that runs the model and writes its text and its calls."""

    async def write(stream: AgentStream) -> None:
        options: dict[str, Any] = {"model": "m"}
        client: Any = model
        new = AsyncRun(client, MESSAGES, tools, options)
        if streamed:
            running = new.stream()
            async for event in running:
                if isinstance(event, TextDelta):
                    await stream.write(event.text)
                elif isinstance(event, ToolCallStarted | ToolCallFinished):
                    await stream.write(f"[{event.name}]")
            result = await running.result()
        else:
            result = await new.result()
        await stream.write(f"\n{result.text} {[call.result for call in result.tool_calls]}")

    async def assist(_: ServiceRequest, stream: AgentStream) -> None:
        set_current_stream(stream, durable=True)
        if in_step:
            await stream.step("answer", write, stream)
        else:
            await write(stream)

    return assist


def every_death(appends: int) -> list[list[tuple[int, bool]]]:
    return [[(number, stored)] for number in range(appends) for stored in (False, True)]


@pytest.mark.parametrize(("streamed", "in_step"), [(False, False), (True, False), (True, True)])
def test_a_restarted_agent_rebuilds_the_conversation(*, streamed: bool, in_step: bool) -> None:
    async def go() -> None:
        first = World()
        expected, appends = await undisturbed(
            agent(Model(*SCRIPT), first.tools, streamed=streamed, in_step=in_step), request()
        )
        assert "3 and 7. ['3', '7', '0']" in text(expected)
        assert appends >= 6
        for deaths in every_death(appends):
            world, model = World(), Model(*SCRIPT)
            ours = agent(model, world.tools, streamed=streamed, in_step=in_step)
            answer = await run(ours, request(), deaths)
            before_now = text(expected).partition("[now]")[0] if streamed else ""
            assert text(answer).startswith(before_now)
            assert answer.outcome == expected.outcome
            # At most what was under way when the process died was done again.
            assert len(world.added) <= 4
            assert sum(model.asked.values()) <= 4
            assert max(Counter(world.added).values()) <= 2

    asyncio.run(go())


@pytest.mark.proves("LLM2-tools-durable")
def test_a_call_whose_result_is_stored_is_never_repeated() -> None:
    async def go() -> None:
        _, appends = await undisturbed(
            agent(Model(*SCRIPT), World().tools, streamed=True), request()
        )
        repeated = 0
        for deaths in every_death(appends):
            world, model = World(), Model(*SCRIPT)
            await run(agent(model, world.tools, streamed=True), request(), deaths)
            again = len(world.added) - 2
            repeated += again > 0
            # Turns and calls are not repeated together: one was stored before the other began.
            assert not (again and max(model.asked.values()) > 1)
        assert repeated <= 4

    asyncio.run(go())


def test_results_come_in_the_order_of_the_calls() -> None:
    """A restarted agent gets stored results at once; what it writes for them must be the same."""

    async def slow() -> str:
        await asyncio.sleep(0.02)
        return "s"

    async def fast() -> str:
        return "f"

    async def go() -> None:
        script, tools = [response(("slow", {}), ("fast", {})), response()], [slow, fast]
        expected, appends = await undisturbed(
            agent(Model(*script), tools, streamed=True), request()
        )
        assert "[slow][fast][slow][fast]" in text(expected)
        for deaths in every_death(appends):
            answer = await run(agent(Model(*script), tools, streamed=True), request(), deaths)
            assert (answer.outcome, text(answer)) == ("complete", text(expected))

    asyncio.run(go())


def test_a_tool_may_refuse_to_be_repeated() -> None:
    async def go() -> None:
        paid: list[int] = []

        def pay(amount: int) -> str:
            paid.append(amount)
            return "paid"

        script = [response(("pay", {"amount": 5})), response()]
        tools = [Tool(pay, on_restart="fail")]
        _, appends = await undisturbed(agent(Model(*script), tools, streamed=False), request())
        codes = set()
        for deaths in every_death(appends):
            paid.clear()
            answer = await run(agent(Model(*script), tools, streamed=False), request(), deaths)
            codes.add(answer.outcome)
            assert len(paid) <= 1
        assert codes == {"complete", "step_uncertain"}

    asyncio.run(go())


@pytest.mark.parametrize("failure", ["model", "tool"])
def test_an_error_is_the_same_after_a_restart(failure: str) -> None:
    async def stop() -> None:
        raise ToolAbort("not allowed")

    limited = LLMRateLimitError("slow down", provider="openai", status=429, retry_after=3.0)
    second: Response | Exception = limited if failure == "model" else response(("stop", {}))

    async def go() -> None:
        world = World()

        async def assist(_: ServiceRequest, stream: AgentStream) -> None:
            set_current_stream(stream, durable=True)
            model: Any = Model(response(*ADD), second)
            tools = [*world.tools, stop]
            running = AsyncRun(model, MESSAGES, tools, {"model": "m"}).stream()
            try:
                await running.result()
            except (LLMRateLimitError, ToolAbort) as error:
                conversation = error.conversation or []
                shown = type(error).__name__, error.retry_after, len(conversation)
                await stream.write(f"{error} {shown}")
                await stream.write("end")

        expected, appends = await undisturbed(assist, request())
        assert ("slow down" if failure == "model" else "not allowed") in text(expected)
        for deaths in every_death(appends):
            answer = await run(assist, request(), deaths)
            assert text(answer) == text(expected)

    asyncio.run(go())


def test_a_reader_that_leaves_early_leaves_at_the_same_place_again() -> None:
    async def go() -> None:
        async def assist(_: ServiceRequest, stream: AgentStream) -> None:
            set_current_stream(stream, durable=True)
            model: Any = Model(response(content="one two three"), pieces=3)
            async with AsyncRun(model, MESSAGES, [], {"model": "m"}).stream() as running:
                async for event in running:
                    if isinstance(event, TextDelta):
                        await stream.write(event.text)
                        break
            await stream.write("|")
            await stream.write("end")

        expected, appends = await undisturbed(assist, request())
        for deaths in every_death(appends):
            assert shown(await run(assist, request(), deaths)) == shown(expected)

    asyncio.run(go())


def test_several_runs_at_the_same_time_need_steps_with_keys() -> None:
    async def go() -> None:
        def new(world: World) -> AsyncRun:
            model: Any = Model(response(*ADD), response(content="done"))
            return AsyncRun(model, MESSAGES, world.tools, {"model": "m"})

        async def without(_: ServiceRequest, stream: AgentStream) -> None:
            set_current_stream(stream, durable=True)
            runs = (new(World()).result() for _ in range(2))
            found = await asyncio.gather(*runs, return_exceptions=True)
            assert [type(result) for result in found].count(RuntimeError) == 1
            await stream.write("refused")

        async def with_keys(_: ServiceRequest, stream: AgentStream) -> None:
            set_current_stream(stream, durable=True)

            async def one() -> str:
                return (await new(World()).result()).text

            steps = (stream.step("run", one, key=str(number)) for number in range(2))
            await stream.write(" ".join(await asyncio.gather(*steps)))

        refused, _ = await undisturbed(without, request())
        assert text(refused) == "refused"
        expected, appends = await undisturbed(with_keys, request())
        assert text(expected) == "done done"
        for deaths in every_death(appends):
            assert text(await run(with_keys, request(), deaths)) == "done done"

    asyncio.run(go())


def test_the_parsed_answer_is_there_after_a_restart() -> None:
    async def go() -> None:
        async def assist(_: ServiceRequest, stream: AgentStream) -> None:
            set_current_stream(stream, durable=True)
            answer = response(content='{"a": 1}', parsed={"a": 1})
            options = {"model": "m", "response_format": {"type": "json_object"}}
            model: Any = Model(answer)
            result = await AsyncRun(model, MESSAGES, [], options).result()
            await stream.write(f"{result.parsed}")
            await stream.write(f"{result.parsed}")

        expected, appends = await undisturbed(assist, request())
        assert text(expected) == "{'a': 1}" * 2
        for deaths in every_death(appends):
            answer: Answer = await run(assist, request(), deaths)
            assert text(answer) == text(expected)

    asyncio.run(go())
