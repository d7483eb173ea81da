"""Runs of both clients against a provider on loopback."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from coreason_client.llm import (
    Finish,
    LLMConnectionError,
    LLMError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMRunLimitError,
    LLMRunTimeoutError,
    LLMToolError,
    ResponseCache,
    RunEvent,
    RunFinished,
    RunResult,
    TextDelta,
    Tool,
    ToolAbort,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnFinished,
    UsageDelta,
)
from tests.llm.server import Provider, Replied, ServerInThread, provider

from .answers import (
    KEY,
    MESSAGES,
    async_client,
    calls,
    said,
    streamed_calls,
    streamed_text,
    sync_client,
)

LIMIT = 20.0


def weather(city: str, days: int = 1) -> dict[str, Any]:
    """Return the weather.

    Args:
        city: the city.
    """
    return {"city": city, "days": days, "sky": "blue"}


async def async_weather(city: str) -> str:
    """Return the weather, on the event loop."""
    await asyncio.sleep(0)
    return f"blue in {city}"


def fail() -> None:
    raise ValueError(f"no weather for {KEY}")


class Runner:
    """Runs a model with the sync or the async client."""

    def __init__(self, *, sync: bool, streamed: bool) -> None:
        self.sync, self.streamed = sync, streamed

    def run(self, server: Provider, tools: Any = None, **options: Any) -> RunResult[Any]:
        options = {"messages": MESSAGES, "tools": tools, **options}
        if self.sync:
            with sync_client(server) as ours:
                if self.streamed:
                    return ours.run_stream(**options).result()
                return ours.run(**options)

        async def go() -> RunResult[Any]:
            async with async_client(server) as ours:
                if self.streamed:
                    return await ours.run_stream(**options).result()
                return await ours.run(**options)

        return asyncio.run(asyncio.wait_for(go(), LIMIT))

    def calls(self, *wanted: Any, **options: Any) -> Replied:
        return (streamed_calls if self.streamed else calls)(*wanted, **options)

    def said(self, text: str) -> Replied:
        return streamed_text(text) if self.streamed else said(text)


@pytest.fixture(
    params=[(sync, streamed) for sync in (False, True) for streamed in (False, True)],
    ids=["async", "async stream", "sync", "sync stream"],
)
def runner(request: pytest.FixtureRequest) -> Runner:
    sync, streamed = request.param
    return Runner(sync=sync, streamed=streamed)


ROME = ("weather", {"city": "Rome"})


@pytest.mark.proves("LLM2-tools-loop")
def test_the_model_gets_the_results_of_its_calls(runner: Runner) -> None:
    wanted = [ROME, ("weather", {"city": "Oslo", "days": 2})]
    with ServerInThread(runner.calls(*wanted, text="Hm."), runner.said("Blue.")) as server:
        result = runner.run(server, [weather])
    first, second = (received.json for received in server.received)
    [tool] = first["tools"]
    assert tool["function"]["name"] == "weather"
    assert tool["function"]["description"] == "Return the weather."
    assert tool["function"]["parameters"]["properties"]["city"]["description"] == "the city."
    assert second["tools"] == first["tools"]
    assert [message["role"] for message in second["messages"]] == [
        *("user", "assistant", "tool", "tool")
    ]
    assert second["messages"][1]["content"] == "Hm."
    assert [message["content"] for message in second["messages"][2:]] == [
        '{"city":"Rome","days":1,"sky":"blue"}',
        '{"city":"Oslo","days":2,"sky":"blue"}',
    ]
    assert (result.text, result.turns) == ("Blue.", 2)
    assert [call.name for call in result.tool_calls] == ["weather", "weather"]
    assert result.response["data"]["content"] == "Blue."


def test_the_conversation_can_be_continued(runner: Runner) -> None:
    replies = [runner.calls(ROME), runner.said("Blue."), runner.said("You are welcome.")]
    with ServerInThread(*replies) as server:
        first = runner.run(server, [weather])
        thanks = [*first.messages, {"role": "user", "content": "Thanks."}]
        assert runner.run(server, [weather], messages=thanks).text == "You are welcome."
    sent = server.received[2].json["messages"]
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


def test_without_tools_a_run_is_one_call(runner: Runner) -> None:
    with ServerInThread(runner.said("Hi.")) as server:
        result = runner.run(server)
    assert (result.text, result.turns, result.tool_calls) == ("Hi.", 1, [])
    assert "tools" not in server.received[0].json


@pytest.mark.proves("LLM2-tools-errors")
def test_errors_of_tools_go_to_the_model(runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    wanted = [("fail", {}), ("weather", {"days": [1]}), ("nothing", {"x": 1})]
    with ServerInThread(runner.calls(*wanted), runner.said("Sorry.")) as server:
        result = runner.run(server, [weather, fail])
    texts = [message["content"] for message in server.received[1].json["messages"][2:]]
    assert texts == [
        "Error: ValueError: no weather for ***",
        "Error: invalid arguments: city: Field required; days: Input should be a valid integer",
        "Error: there is no tool 'nothing'; the tools are: weather, fail",
    ]
    assert [call.is_error for call in result.tool_calls] == [True, True, True]
    # OpenAI's format has no such key.
    assert [message.get("is_error") for message in result.messages[2:5]] == [True] * 3
    assert not any("is_error" in message for message in server.received[1].json["messages"])
    assert "the tool fail failed" in caplog.text


def test_a_tool_that_always_fails_ends_the_run(runner: Runner) -> None:
    with ServerInThread(runner.calls(("fail", {}))) as server:
        with pytest.raises(LLMToolError) as caught:
            runner.run(server, [fail], max_tool_errors=2)
        assert len(server.received) == 2
    assert (caught.value.tool, caught.value.failures) == ("fail", 2)


def test_a_tool_can_end_the_run(runner: Runner) -> None:
    def stop() -> None:
        raise ToolAbort("not allowed")

    with ServerInThread(runner.calls(("stop", {}))) as server:
        with pytest.raises(ToolAbort, match=r"^not allowed$") as caught:
            runner.run(server, [stop])
        assert len(server.received) == 1
    conversation = caught.value.conversation
    assert conversation is not None
    assert conversation[-1]["content"] == "Error: not allowed"


@pytest.mark.proves("LLM2-tools-limits")
def test_limits_end_the_run_before_the_next_request(runner: Runner) -> None:
    with ServerInThread(runner.calls(ROME)) as server:
        with pytest.raises(LLMRunLimitError) as caught:
            runner.run(server, [weather], max_turns=2)
        assert len(server.received) == 2
    assert caught.value.limit == "max_turns"
    assert caught.value.usage is not None
    assert caught.value.conversation is not None
    assert len(caught.value.conversation) == 5


def test_an_error_of_the_provider_has_the_conversation_so_far(runner: Runner) -> None:
    with (
        ServerInThread(runner.calls(ROME), Replied(429)) as server,
        pytest.raises(LLMRateLimitError) as caught,
    ):
        runner.run(server, [weather])
    assert caught.value.conversation is not None
    assert [message["role"] for message in caught.value.conversation] == [
        *("user", "assistant", "tool")
    ]


@pytest.mark.proves("LLM2-tools-timeout")
def test_the_time_limit_ends_a_request(runner: Runner) -> None:
    def run_out(timeout: float) -> tuple[int, LLMRunTimeoutError]:
        with (
            ServerInThread(runner.calls(ROME), Replied(silent=True)) as server,
            pytest.raises(LLMRunTimeoutError) as caught,
        ):
            runner.run(server, [weather], timeout=timeout)
        return len(server.received), caught.value

    requests, error = run_out(0.3)
    if requests < 2:  # on a busy machine the first request may already be too late
        requests, error = run_out(5.0)
    assert (requests, error.limit) == (2, "timeout")
    conversation = error.conversation or []
    assert [message["role"] for message in conversation] == ["user", "assistant", "tool"]


def test_the_time_limit_ends_waiting_for_parallel_calls(runner: Runner) -> None:
    over = threading.Event()

    def wait() -> None:
        over.wait(LIMIT)

    try:
        with (
            ServerInThread(runner.calls(ROME, ("wait", {}))) as server,
            pytest.raises(LLMRunTimeoutError) as caught,
        ):
            runner.run(server, [weather, wait], timeout=0.3)
    finally:
        over.set()
    # On a busy machine the first request may already be too late.
    results = (caught.value.conversation or [])[2:]
    assert [result["tool_call_id"] for result in results] in ([], ["call_1", "call_2"])
    assert all("interrupted" in result["content"] for result in results[1:])


def test_a_tool_can_have_a_time_limit(runner: Runner) -> None:
    over = threading.Event()

    def wait() -> None:
        over.wait(LIMIT)

    try:
        with ServerInThread(runner.calls(("wait", {})), runner.said("Late.")) as server:
            result = runner.run(server, [Tool(wait, timeout=0.05)])
    finally:
        over.set()
    assert result.tool_calls[0].result == "Error: the tool took longer than its timeout of 0.05 s"


@pytest.mark.proves("LLM2-tools-parallel")
def test_calls_of_one_answer_run_at_the_same_time(runner: Runner) -> None:
    together = threading.Barrier(3)

    def meet(n: int) -> int:
        together.wait(LIMIT)
        return n

    wanted = [("meet", {"n": n}) for n in range(3)]
    with ServerInThread(runner.calls(*wanted), runner.said("Met.")) as server:
        result = runner.run(server, [meet])
    assert [call.result for call in result.tool_calls] == ["0", "1", "2"]


def test_the_number_of_calls_at_the_same_time_is_limited(runner: Runner) -> None:
    lock, running, most = threading.Lock(), 0, 0
    pause = threading.Event()

    def work(n: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pause.wait(0.01)
        with lock:
            running -= 1
        return n

    wanted = [("work", {"n": n}) for n in range(6)]
    with ServerInThread(runner.calls(*wanted), runner.said("Done.")) as server:
        result = runner.run(server, [work], max_parallel_calls=2)
    assert [call.result for call in result.tool_calls] == [str(n) for n in range(6)]
    assert most <= 2


def test_the_answer_can_be_parsed(runner: Runner) -> None:
    class Sky(BaseModel):
        colour: str

    with ServerInThread(runner.calls(ROME), runner.said('{"colour": "blue"}')) as server:
        result = runner.run(server, [weather], response_format=Sky)
    assert result.parsed == Sky(colour="blue")
    assert result.messages[-1] == {"role": "assistant", "content": '{"colour": "blue"}'}
    assert all("response_format" in received.json for received in server.received)


def test_options_of_a_call_are_passed_on(runner: Runner) -> None:
    options = {"temperature": 0.1, "max_tokens": 50, "stop": "END", "extra": {"seed": 7}}
    with ServerInThread(runner.calls(ROME), runner.said("Hi.")) as server:
        runner.run(server, [weather], tool_choice="required", **options)
    first, second = (received.json for received in server.received)
    for body in (first, second):
        assert (body["temperature"], body["seed"], body["stop"]) == (0.1, 7, ["END"])
    assert (first["tool_choice"], second["tool_choice"]) == ("required", "auto")


def test_context_variables_reach_the_tools(runner: Runner) -> None:
    from contextvars import ContextVar

    user: ContextVar[str] = ContextVar("user", default="nobody")
    user.set("me")

    def who() -> str:
        return user.get()

    with ServerInThread(runner.calls(("who", {}), ("who", {})), runner.said("You.")) as server:
        result = runner.run(server, [who])
    assert [call.result for call in result.tool_calls] == ["me", "me"]


# Arguments that are not a JSON object.


@pytest.mark.parametrize("broken", ['{"city": "Ro', "[1]"])
def test_arguments_that_are_not_an_object_are_an_error_of_the_tool(
    runner: Runner, broken: str
) -> None:
    replies = [runner.calls(("weather", broken), ROME, text="Hm."), runner.said("Blue.")]
    with ServerInThread(*replies) as server:
        result = runner.run(server, [weather])
    failed, good = result.tool_calls
    assert failed.is_error
    assert failed.result.startswith("Error: the arguments are not a JSON object: ")
    assert broken in failed.result
    assert not good.is_error
    sent = server.received[1].json["messages"]
    assert sent[1]["tool_calls"][0]["function"] == {"name": "weather", "arguments": "{}"}
    assert [message["content"] for message in sent[2:]] == [failed.result, good.result]
    assert result.text == "Blue."


def test_arguments_that_are_never_an_object_end_the_run(runner: Runner) -> None:
    with ServerInThread(runner.calls(("weather", "{"))) as server:
        with pytest.raises(LLMToolError) as caught:
            runner.run(server, [weather])
        assert len(server.received) == 3
    assert (caught.value.tool, caught.value.failures) == ("weather", 3)
    assert caught.value.conversation is not None
    assert [m["role"] for m in caught.value.conversation] == ["user", *["assistant", "tool"] * 3]


def test_such_a_call_is_an_error_outside_of_a_run(runner: Runner) -> None:
    with (
        ServerInThread(runner.calls(("weather", "{"))) as server,
        sync_client(server) as ours,
        pytest.raises(LLMResponseError, match="not a JSON object"),
    ):
        if runner.streamed:
            ours.stream(MESSAGES).result()
        else:
            ours.generate(MESSAGES)


def test_a_stream_that_breaks_in_a_call_is_not_such_a_call() -> None:
    whole = streamed_calls(("weather", '{"city": "Ro'))
    cut = Replied(200, whole.headers, chunks=list(whole.chunks or ())[:1], cut=True)
    with (
        ServerInThread(cut) as server,
        sync_client(server) as ours,
        pytest.raises(LLMConnectionError) as caught,
    ):
        ours.run_stream(MESSAGES, tools=[weather]).result()
    assert caught.value.partial is not None
    assert caught.value.partial["data"]["tool_calls"] == []


def test_a_run_leaves_no_such_call_in_the_cache() -> None:
    replies = [calls(("weather", "{")), said("Blue."), calls(ROME), said("Blue.")]
    with ServerInThread(*replies) as server, sync_client(server, cache=ResponseCache()) as ours:
        assert ours.run(MESSAGES, tools=[weather]).tool_calls[0].is_error
        assert not ours.run(MESSAGES, tools=[weather]).tool_calls[0].is_error
        assert ours.run(MESSAGES, tools=[weather]).text == "Blue."
        assert len(server.received) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": [5]}, r"tools\[0\] must be a function, a Tool, an MCPServer or a tool .*got 5"),
        ({"tools": weather}, "tools must be a list"),
        ({"tools": [{"type": "function"}]}, r"tools\[0\] must be a function"),
        ({"tools": [weather, weather]}, "must be unique"),
        ({"tools": [{"type": "custom", "name": "x"}]}, "tools.0. must not be a custom tool"),
        ({"tools": [lambda: 1]}, "letters, digits"),
        ({"tools": [Tool(weather, timeout=0)]}, r"tools\[0\]\.timeout"),
        ({"tools": [Tool(weather, on_restart="maybe")]}, "rerun"),  # type: ignore[arg-type]
        ({"max_turns": 0}, "max_turns must be"),
        ({"messages": 5}, "messages must be text, or a list"),
        ({"messages": []}, "at least one message"),
    ],
)
def test_wrong_arguments_are_errors_before_anything_is_sent(
    runner: Runner, options: dict[str, Any], message: str
) -> None:
    with ServerInThread() as server:
        with pytest.raises(LLMRequestError, match=message):
            runner.run(server, **options)
        assert server.received == []


def test_an_async_tool_needs_the_async_client() -> None:
    with (
        ServerInThread() as server,
        sync_client(server) as ours,
        pytest.raises(LLMRequestError, match="use AsyncLLMClient"),
    ):
        ours.run_stream(MESSAGES, tools=[weather, async_weather])


# Events.


@pytest.mark.parametrize("sync", [False, True])
def test_the_events_of_a_run(*, sync: bool) -> None:
    replies = [streamed_calls(ROME, text="Hm."), streamed_text("Bl", "ue.")]
    events: list[RunEvent] = []

    async def read() -> RunResult[Any]:
        async with async_client(server) as ours:
            stream = ours.run_stream(MESSAGES, tools=[weather])
            async for event in stream:
                events.append(event)  # noqa: PERF401
            return await stream.result()

    with ServerInThread(*replies) as server:
        if sync:
            with sync_client(server) as ours, ours.run_stream(MESSAGES, tools=[weather]) as stream:
                events.extend(stream)
                result = stream.result()
        else:
            result = asyncio.run(read())
    turn = [UsageDelta, Finish]
    assert [type(event) for event in events] == [
        *(TextDelta, ToolCallDelta, *turn, ToolCallStarted, ToolCallFinished, TurnFinished),
        *(TextDelta, TextDelta, *turn, TurnFinished, RunFinished),
    ]
    started, finished, first, last = (events[n] for n in (4, 5, 6, 11))
    assert started == ToolCallStarted(1, "call_1", "weather", {"city": "Rome"})
    assert isinstance(finished, ToolCallFinished)
    assert (finished.turn, finished.id, finished.is_error) == (1, "call_1", False)
    assert json.loads(finished.result)["sky"] == "blue"
    assert 0 < finished.seconds < 5
    assert isinstance(first, TurnFinished)
    assert isinstance(last, TurnFinished)
    assert (first.turn, last.turn) == (1, 2)
    assert first.usage == first.response["usage"]
    assert events[-1] == RunFinished(result)
    assert result.tool_calls == [finished]


@pytest.mark.parametrize("sync", [False, True])
def test_only_the_text(*, sync: bool) -> None:
    replies = [
        streamed_calls(ROME, text="Let me see."),
        streamed_calls(ROME),
        streamed_text("Bl", "ue."),
    ]

    async def read() -> list[str]:
        async with async_client(server) as ours:
            return [text async for text in ours.run_stream(MESSAGES, tools=[weather]).text()]

    with ServerInThread(*replies) as server:
        if sync:
            with sync_client(server) as ours:
                texts = list(ours.run_stream(MESSAGES, tools=[weather]).text())
                with pytest.raises(LLMRequestError, match="Restarted"):
                    ours.run_stream(MESSAGES, on_break="restart").text()
        else:
            texts = asyncio.run(read())
    assert texts == ["Let me see.", "\n\nBl", "ue."]


@pytest.mark.proves("LLM2-tools-broken-turn")
@pytest.mark.parametrize("sync", [False, True])
def test_only_the_broken_turn_restarts(*, sync: bool) -> None:
    executed: list[str] = []

    def weather(city: str) -> str:
        executed.append(city)
        return "blue"

    replies = [streamed_calls(ROME), streamed_text("Bl", cut=True), streamed_text("Red.")]
    options: dict[str, Any] = {"tools": [weather], "on_break": "restart"}
    events: list[RunEvent] = []

    async def read() -> None:
        async with async_client(server, max_retries=1) as ours:
            async for event in ours.run_stream(MESSAGES, **options):
                events.append(event)  # noqa: PERF401

    with ServerInThread(*replies) as server:
        if sync:
            with sync_client(server, max_retries=1) as ours:
                events.extend(ours.run_stream(MESSAGES, **options))
        else:
            asyncio.run(read())
        assert len(server.received) == 3
    assert executed == ["Rome"]
    shown = [e.text if isinstance(e, TextDelta) else type(e).__name__ for e in events]
    assert shown[shown.index("TurnFinished") + 1 :][:3] == ["Bl", "Restarted", "Red."]
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert last.result.text == "Red."
    spent = [e.usage["total_tokens"] for e in events if isinstance(e, TurnFinished)]
    assert spent[1] > last.result.response["usage"]["total_tokens"]  # the broken attempt counts
    assert last.result.usage["total_tokens"] == sum(spent)


def test_the_usage_of_a_broken_turn_is_part_of_the_error() -> None:
    with (
        ServerInThread(streamed_calls(ROME), streamed_text("Bl", cut=True)) as server,
        sync_client(server) as ours,
        pytest.raises(LLMConnectionError) as caught,
    ):
        ours.run_stream(MESSAGES, tools=[weather]).result()
    error = caught.value
    assert error.partial is not None
    assert error.spent is not None
    assert error.usage is not None
    assert error.usage["total_tokens"] > error.spent["total_tokens"] > 0


# The async client.


def go(work: Callable[[Provider], Any], *replies: Replied) -> Any:
    async def main() -> Any:
        async with provider(*replies) as server:
            return await work(server)

    return asyncio.run(asyncio.wait_for(main(), LIMIT))


def test_async_tools_run_on_the_event_loop() -> None:
    threads: list[int] = []

    async def where() -> int:
        threads.append(threading.get_ident())
        return 1

    async def work(server: Provider) -> None:
        async with async_client(server) as ours:
            await ours.run(MESSAGES, tools=[where, async_weather])

    go(work, calls(("where", {}), ("async_weather", {"city": "Rome"})), said("Hi."))
    assert threads == [threading.get_ident()]


def test_plain_tools_do_not_block_the_event_loop() -> None:
    loop_ran = threading.Event()

    def blocks() -> bool:
        return loop_ran.wait(LIMIT)

    async def frees() -> bool:
        loop_ran.set()
        return True

    async def work(server: Provider) -> RunResult[Any]:
        async with async_client(server) as ours:
            return await ours.run(MESSAGES, tools=[blocks, frees])

    result = go(work, calls(("blocks", {}), ("frees", {})), said("Hi."))
    assert [call.result for call in result.tool_calls] == ["true", "true"]


def test_results_are_shown_as_they_come_and_sent_in_order() -> None:
    second_done = asyncio.Event()

    async def first() -> str:
        await second_done.wait()
        return "1"

    async def second() -> str:
        return "2"

    finished: list[str] = []

    async def work(server: Provider) -> RunResult[Any]:
        async with async_client(server) as ours:
            stream = ours.run_stream(MESSAGES, tools=[first, second])
            async for event in stream:
                if isinstance(event, ToolCallFinished):
                    finished.append(event.name)
                    second_done.set()
            return await stream.result()

    result = go(work, streamed_calls(("first", {}), ("second", {})), streamed_text("Hi."))
    assert finished == ["second", "first"]
    assert [call.name for call in result.tool_calls] == ["first", "second"]


class Endless:
    """A tool that never ends, and knows whether it was cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = 0

    async def endless(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@pytest.mark.parametrize("how", ["cancel", "close", "timeout", "abort"])
def test_nothing_is_left_running(how: str) -> None:
    tool = Endless()

    async def abort() -> None:
        await tool.started.wait()
        raise ToolAbort("stop")

    async def work(server: Provider) -> None:
        tools: list[Any] = [tool.endless]
        async with async_client(server) as ours:
            stream = ours.run_stream(
                MESSAGES,
                tools=[*tools, abort] if how == "abort" else tools,
                timeout=0.2 if how == "timeout" else None,
            )
            with tasks_as_before_but_connections():
                reading = asyncio.create_task(read_all(stream))
                await tool.started.wait()
                if how == "cancel":
                    reading.cancel()
                elif how == "close":
                    reading.cancel()
                    await asyncio.wait({reading})
                    await stream.aclose()
                await asyncio.wait({reading})
                if how in ("abort", "timeout"):
                    assert isinstance(reading.exception(), LLMError)

    names = ["endless", "endless", *(["abort"] if how == "abort" else [])]
    go(work, streamed_calls(*((name, {}) for name in names)))
    assert tool.cancelled == 2


async def read_all(stream: Any) -> None:
    async for _ in stream:
        pass


@contextmanager
def tasks_as_before_but_connections() -> Iterator[None]:
    """Allow for the tasks of the provider, which serves each connection in one."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before
    assert [task for task in left if "serve" not in repr(task.get_coro())] == []


def test_closing_a_run_closes_the_connection_to_the_model() -> None:
    async def work(server: Provider) -> None:
        async with async_client(server) as ours, ours.run_stream(MESSAGES) as stream:
            first = await anext(stream)
            assert first == TextDelta("Hel")
            await stream.aclose()
            await asyncio.wait_for(server.left.wait(), 5)
            with pytest.raises(LLMResponseError, match="closed before its end"):
                await stream.result()

    go(work, streamed_text("Hel", hold=True))


def test_an_error_is_raised_again_by_result() -> None:
    async def work(server: Provider) -> None:
        async with async_client(server) as ours:
            stream = ours.run_stream(MESSAGES)
            with pytest.raises(LLMRateLimitError):
                await anext(stream)
            with pytest.raises(LLMRateLimitError):
                await stream.result()

    go(work, Replied(429))


def test_a_tool_that_raises_the_error_of_a_cancellation_does_not_cancel_the_run() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    async def work(server: Provider) -> RunResult[Any]:
        async with async_client(server) as ours:
            return await ours.run(MESSAGES, tools=[give_up])

    result = go(work, calls(("give_up", {})), said("Hi."))
    assert result.tool_calls[0].result == "Error: CancelledError"


def test_a_function_may_return_an_awaitable() -> None:
    def later(city: str) -> Any:
        return async_weather(city)

    async def work(server: Provider) -> RunResult[Any]:
        async with async_client(server) as ours:
            return await ours.run(MESSAGES, tools=[later])

    result = go(work, calls(("later", {"city": "Rome"})), said("Hi."))
    assert result.tool_calls[0].result == "blue in Rome"
