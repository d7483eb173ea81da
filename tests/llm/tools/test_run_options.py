"""The options of calls in a run apply to every turn, and nothing stays reserved at its end."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from coreason_client.llm import (
    Budget,
    Deployment,
    LLMBudgetError,
    LLMError,
    LLMRequestError,
    LLMResponseError,
    MemoryState,
    ResponseCache,
    Router,
    RunFinished,
    TextDelta,
    ToolAbort,
)
from tests.llm.server import Provider, Replied, ServerInThread, provider

from .answers import KEY, MESSAGES, async_client, calls, said, streamed_text, sync_client
from .test_tools_run import ROME, Runner, runner, weather

__all__ = ["runner"]

BUDGET = Budget(1.0, per="key", unpriced=1e-6)
ALICE = BUDGET.account("alice", 0).name
NANODOLLARS_PER_TOKEN = 1000


class Sky(BaseModel):
    color: str


def run(runner: Runner, server: Provider, client: dict[str, Any], **options: Any) -> Any:
    """Run a model with a client that has its own options."""
    options = {"messages": MESSAGES, "tools": [weather], **options}
    if runner.sync:
        with sync_client(server, **client) as ours:
            if runner.streamed:
                return ours.run_stream(**options).result()
            return ours.run(**options)

    async def go() -> Any:
        async with async_client(server, **client) as ours:
            if runner.streamed:
                return await ours.run_stream(**options).result()
            return await ours.run(**options)

    return asyncio.run(asyncio.wait_for(go(), 20))


def test_the_budget_of_the_key_pays_for_every_turn(runner: Runner) -> None:
    state = MemoryState()
    client: dict[str, Any] = {"budgets": BUDGET, "state": state}
    with ServerInThread(runner.calls(ROME), runner.said("Blue.")) as server:
        result = run(runner, server, client, budget_key="alice")
    assert result.turns == 2
    tokens = result.usage["total_tokens"]
    assert state.totals(ALICE) == (tokens * NANODOLLARS_PER_TOKEN, 0)


def test_a_budget_ends_a_run(runner: Runner) -> None:
    state = MemoryState()
    reserved = 2000 * 1e-6
    small = Budget(reserved * 1.05, per="key", unpriced=1e-6)
    long = runner.calls(("weather", {"city": "Rome" * 1000}))  # the second request is too expensive
    with ServerInThread(long, runner.said("Blue.")) as server:
        with pytest.raises(LLMBudgetError) as caught:
            run(runner, server, {"budgets": small, "state": state}, budget_key="alice")
        assert len(server.received) == 1
    assert [m["role"] for m in caught.value.conversation or ()] == ["user", "assistant", "tool"]
    assert state.totals(small.account("alice", 0).name)[1] == 0


def test_tags_select_the_deployment_of_every_turn(runner: Runner) -> None:
    with ServerInThread(runner.calls(ROME), runner.said("Blue.")) as server:
        here, there = (
            Deployment("m", base_url=f"{server.url}/{tag}", api_key=KEY, tags=[tag])
            for tag in ("here", "there")
        )
        router = Router({"fast": [here, there]})
        result = run(runner, server, {"router": router}, model="fast", tags=["there"])
        paths = [received.path.split("/")[1] for received in server.received]
    assert result.text == "Blue."
    assert paths == ["there", "there"]


@pytest.mark.parametrize(
    "options", [{"on_break": "maybe"}, {"raw": 1}, {"reask": 2}, {"tags": ["eu"]}]
)
def test_a_wrong_option_is_an_error_before_anything_is_sent(
    runner: Runner, options: dict[str, Any]
) -> None:
    with ServerInThread() as server:
        with pytest.raises(LLMRequestError):
            run(runner, server, {}, **options)
        assert server.received == []


def test_an_option_that_does_not_exist_is_an_error(runner: Runner) -> None:
    with ServerInThread() as server, pytest.raises(TypeError, match="there is no option 'colour'"):
        run(runner, server, {}, colour="blue")


def test_the_reply_of_the_provider_is_part_of_the_response(runner: Runner) -> None:
    with ServerInThread(runner.calls(ROME), runner.said("Blue.")) as server:
        assert "Blue." in str(run(runner, server, {}, raw=True).response["raw"])


@pytest.mark.parametrize("use_cache", [False, True])
def test_the_answers_of_a_run_are_cached_unless_the_caller_forbids_it(*, use_cache: bool) -> None:
    replies = [calls(ROME), said("Blue.")]
    with (
        ServerInThread(*replies, *replies) as server,
        sync_client(server, cache=ResponseCache()) as ours,
    ):
        for _ in range(2):
            assert ours.run(MESSAGES, tools=[weather], cache=use_cache).text == "Blue."
        assert len(server.received) == (2 if use_cache else 4)


@pytest.mark.parametrize("reask", [False, True])
def test_a_last_answer_that_is_not_valid_is_corrected_unless_the_caller_forbids_it(
    *, reask: bool
) -> None:
    replies = [calls(ROME), said("Blue."), said('{"color": "blue"}')]
    with ServerInThread(*replies) as server, sync_client(server) as ours:
        options: dict[str, Any] = {"tools": [weather], "reask": reask}
        if reask:
            result = ours.run(MESSAGES, response_format=Sky, **options)
            assert result.parsed == Sky(color="blue")
        else:
            with pytest.raises(LLMResponseError, match="Sky"):
                ours.run(MESSAGES, response_format=Sky, **options)
        assert len(server.received) == (3 if reask else 2)


def test_a_model_may_continue_an_answer_that_broke() -> None:
    texts = ["Blue ", "sky."]
    replies = [streamed_text(texts[0], cut=True), streamed_text(texts[1])]
    with (
        ServerInThread(*replies) as server,
        sync_client(server, max_retries=1, provider="mistral") as ours,
    ):
        stream = ours.run_stream(MESSAGES, tools=[weather], on_break="continue")
        events = list(stream)
    assert [event.text for event in events if isinstance(event, TextDelta)] == texts
    assert isinstance(events[-1], RunFinished)
    assert events[-1].result.text == "Blue sky."


# Nothing stays reserved.

ENDINGS = ["complete", "fails", "abort", "cancel in the tool", "cancel in the model", "timeout"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_stays_reserved_after_a_run(ending: str, *, streamed: bool) -> None:
    second = {"fails": Replied(500), "cancel in the model": Replied(silent=True)}
    second["timeout"] = second["cancel in the model"]
    form = Runner(sync=False, streamed=streamed)
    replies = [form.calls(("work", {})), second.get(ending, form.said("Blue."))]
    tool_runs = asyncio.Event()

    async def work() -> None:
        tool_runs.set()
        if ending == "abort":
            raise ToolAbort("stop")
        if ending == "cancel in the tool":
            await asyncio.Event().wait()

    def is_time_to_cancel(server: Provider) -> bool:
        return tool_runs.is_set() and (ending.endswith("tool") or len(server.received) == 2)

    async def go(state: MemoryState) -> None:
        timeout = 0.2 if ending == "timeout" else None
        options: dict[str, Any] = {"tools": [work], "budget_key": "alice", "timeout": timeout}
        async with (
            provider(*replies) as server,
            async_client(server, budgets=BUDGET, state=state) as ours,
        ):
            if streamed:
                task = asyncio.create_task(ours.run_stream(MESSAGES, **options).result())
            else:
                task = asyncio.create_task(ours.run(MESSAGES, **options))
            if ending.startswith("cancel"):
                await until(lambda: is_time_to_cancel(server))
                task.cancel()
            await asyncio.wait({task}, timeout=10)
            assert task.done()
            if not task.cancelled():
                assert isinstance(task.exception(), LLMError) == (ending != "complete")

    state = MemoryState()
    asyncio.run(asyncio.wait_for(go(state), 20))
    spent, reserved = state.totals(ALICE)
    assert spent > 0
    assert reserved == 0


@pytest.mark.parametrize("sync", [False, True])
def test_nothing_stays_reserved_after_a_stream_that_is_closed(*, sync: bool) -> None:
    state = MemoryState()
    client: dict[str, Any] = {"budgets": BUDGET, "state": state}
    options: dict[str, Any] = {"tools": [weather], "budget_key": "alice"}

    async def read(server: Provider) -> None:
        async with async_client(server, **client) as ours:
            async with ours.run_stream(MESSAGES, **options) as stream:
                assert await anext(stream) == TextDelta("Bl")
                assert state.totals(ALICE)[1] > 0
            await ours.run_stream(MESSAGES, **options).aclose()  # never read

    with ServerInThread(streamed_text("Bl", hold=True)) as server:
        if sync:
            with sync_client(server, **client) as ours:
                with ours.run_stream(MESSAGES, **options) as stream:
                    assert next(stream) == TextDelta("Bl")
                    assert state.totals(ALICE)[1] > 0
                ours.run_stream(MESSAGES, **options).close()
        else:
            asyncio.run(read(server))
    assert state.totals(ALICE)[0] > 0
    assert state.totals(ALICE)[1] == 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
