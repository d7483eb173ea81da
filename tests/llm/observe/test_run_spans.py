"""The spans of runs: model calls and tools are their children."""

import asyncio
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode, get_current_span

from coreason_client.agents.llm import llm_agent
from coreason_client.llm import (
    AsyncLLMClient,
    LLMRunLimitError,
    LLMServerError,
    ToolCallStarted,
    TurnFinished,
)
from coreason_client.server import AgentApp, running
from tests.llm.server import Provider, Replied
from tests.llm.tools.answers import calls, said, streamed_calls, streamed_text
from tests.server.peer import Peer

from .collect import KEY, MESSAGES, Collected, arguments, asynchronously, synchronously

CITIES = [("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"})]
RUN = "invoke_agent"
TOOL = "execute_tool weather"
FORMS = [(sync, streamed) for sync in (False, True) for streamed in (False, True)]
NAMES = ["async", "async stream", "sync", "sync stream"]


def weather(city: str) -> str:
    get_current_span().add_event("in the tool")
    return f"blue in {city}"


def fail() -> None:
    raise ValueError("no weather")


def run(
    server: Provider, collected: Collected, form: tuple[bool, bool], *tools: Any, **options: Any
) -> Any:
    """Run a model; the span `outer` is current where the run begins."""
    sync, streamed = form
    telemetry = collected.telemetry(metric_names="latest", **options)

    async def work(client: AsyncLLMClient) -> Any:
        if not streamed:
            with collected.tracer.start_as_current_span("outer"):
                return await client.run(MESSAGES, tools=tools)
        with collected.tracer.start_as_current_span("outer"):
            stream = client.run_stream(MESSAGES, tools=tools)
        return await stream.result()

    def sync_work(client: Any) -> Any:
        with collected.tracer.start_as_current_span("outer"):
            if not streamed:
                return client.run(MESSAGES, tools=tools)
            stream = client.run_stream(MESSAGES, tools=tools)
        return stream.result()

    options = {"telemetry": telemetry, "max_retries": 0}
    if sync:
        return synchronously(server, sync_work, **options)
    return asynchronously(server, work, **options)


def replies(form: tuple[bool, bool], *wanted: Any) -> list[Replied]:
    if form[1]:
        return [streamed_calls(*wanted), streamed_text("Blue.")]
    return [calls(*wanted), said("Blue.")]


def named(collected: Collected, name: str) -> list[ReadableSpan]:
    return [span for span in collected.spans if span.name == name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert parent.context is not None
    return span.parent is not None and span.parent.span_id == parent.context.span_id


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
@pytest.mark.parametrize("wanted", [CITIES[:1], CITIES], ids=["one call", "two calls"])
def test_model_calls_and_tools_are_below_their_run(
    server: Provider, collected: Collected, form: tuple[bool, bool], wanted: Any
) -> None:
    server.replies = replies(form, *wanted)
    run(server, collected, form, weather)
    [whole], [outer] = named(collected, RUN), named(collected, "outer")
    tools = named(collected, TOOL)
    assert is_child(whole, outer)
    assert [is_child(span, whole) for span in named(collected, "chat m")] == [True, True]
    assert [is_child(span, whole) for span in tools] == [True] * len(wanted)
    ids = {f"call_{number + 1}" for number in range(len(wanted))}
    assert {attributes(span)["gen_ai.tool.call.id"] for span in tools} == ids
    assert {attributes(span)["gen_ai.tool.type"] for span in tools} == {"function"}
    assert [[event.name for event in span.events] for span in tools] == [["in the tool"]] * len(
        wanted
    )
    assert {attributes(span)["coreason.outcome"] for span in (whole, *tools)} == {"complete"}
    metrics = collected.metrics()
    assert metrics["gen_ai.execute_tool.duration"][0].count == len(wanted)
    assert metrics["gen_ai.invoke_agent.duration"][0].count == 1


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_a_tool_that_fails_is_an_error_of_its_span_only(
    server: Provider, collected: Collected, form: tuple[bool, bool]
) -> None:
    server.replies = replies(form, ("fail", {}), ("weather", {"town": "Rome"}), ("other", {}))
    run(server, collected, form, fail, weather)
    failed, invalid = named(collected, "execute_tool fail") + named(collected, TOOL)
    for span, kind in ((failed, "ValueError"), (invalid, "invalid_arguments")):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == kind
    [whole] = named(collected, RUN)
    assert whole.status.status_code is StatusCode.UNSET
    assert not named(collected, "execute_tool other")  # there is no such tool: nothing is executed


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_an_error_that_ends_the_run_is_that_of_its_span(
    server: Provider, collected: Collected, form: tuple[bool, bool]
) -> None:
    server.replies = [replies(form, *CITIES)[0], Replied(500)]
    with pytest.raises(LLMServerError):
        run(server, collected, form, weather)
    [whole] = named(collected, RUN)
    assert attributes(whole)["error.type"].endswith(".LLMServerError")
    assert [is_child(span, whole) for span in named(collected, "chat m")] == [True, True]


def test_a_limit_of_the_run_is_its_error(server: Provider, collected: Collected) -> None:
    server.replies = replies((True, False), *CITIES)

    def work(client: Any) -> None:
        with pytest.raises(LLMRunLimitError):
            client.run(MESSAGES, tools=[weather], max_turns=1)

    synchronously(server, work, telemetry=collected.telemetry())
    assert attributes(named(collected, RUN)[0])["error.type"].endswith(".LLMRunLimitError")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_that_is_cancelled(server: Provider, collected: Collected, *, streamed: bool) -> None:
    server.replies = replies((False, streamed), ("wait", {}), ("wait", {}))

    async def work(client: AsyncLLMClient) -> None:
        started = asyncio.Event()

        async def wait() -> None:
            started.set()
            await asyncio.Event().wait()

        async def go() -> Any:
            if streamed:
                return await client.run_stream(MESSAGES, tools=[wait]).result()
            return await client.run(MESSAGES, tools=[wait])

        task = asyncio.create_task(go())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asynchronously(server, work, telemetry=collected.telemetry())
    [whole] = named(collected, RUN)
    tools = named(collected, "execute_tool wait")
    assert len(tools) == 2
    for span in (whole, *tools):
        assert attributes(span)["coreason.outcome"] == "cancelled"
        assert span.status.status_code is StatusCode.UNSET
    assert all(is_child(span, whole) for span in tools)


@pytest.mark.parametrize("sync", [False, True])
def test_a_stream_of_a_run_is_never_current_for_its_reader(
    server: Provider, collected: Collected, *, sync: bool
) -> None:
    server.replies = replies((sync, True), *CITIES)
    seen: list[bool] = []

    def record(event: Any) -> bool:
        seen.append(get_current_span().get_span_context().is_valid)
        return isinstance(event, ToolCallStarted | TurnFinished)

    async def work(client: AsyncLLMClient) -> None:
        async with client.run_stream(MESSAGES, tools=[weather]) as stream:
            async for event in stream:
                if record(event) and isinstance(event, TurnFinished):
                    break

    def sync_work(client: Any) -> None:
        with client.run_stream(MESSAGES, tools=[weather]) as stream:
            for event in stream:
                if record(event) and isinstance(event, TurnFinished):
                    break

    if sync:
        synchronously(server, sync_work, telemetry=collected.telemetry())
    else:
        asynchronously(server, work, telemetry=collected.telemetry())
    assert len(seen) > 5
    assert not any(seen)
    assert attributes(named(collected, RUN)[0])["coreason.outcome"] == "closed"
    assert len(named(collected, TOOL)) == 2


def test_content_is_recorded_on_request_and_without_keys(
    server: Provider, collected: Collected
) -> None:
    server.replies = replies((True, False), ("weather", {"city": f"Rome {KEY}"}))
    run(server, collected, (True, False), weather, record_content=True)
    [tool] = named(collected, TOOL)
    recorded = attributes(tool)
    assert recorded["gen_ai.tool.call.arguments"] == '{"city":"Rome ***"}'
    assert recorded["gen_ai.tool.call.result"] == '"blue in Rome ***"'
    assert KEY not in collected.everything()


def test_the_tools_of_an_agent_are_below_its_span(
    server: Provider, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: collected.tracers)
    server.replies = replies((False, True), *CITIES)
    client = AsyncLLMClient(**arguments(server, {}))
    with running(AgentApp(llm_agent("m", client=client, tools=[weather]))) as served:
        peer = Peer(served.url)
        assert peer.ask().text == "Blue."
        peer.close()
    [agent] = [span for span in collected.spans if span.name.startswith(RUN)]
    tools = named(collected, TOOL)
    assert [is_child(span, agent) for span in tools] == [True, True]


def test_a_run_without_telemetry_does_not_import_it(
    server: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.replies = replies((False, False), *CITIES)
    spans = "coreason_client.llm.observe._spans"
    monkeypatch.setitem(sys.modules, spans, None)  # importing it fails

    async def work(client: AsyncLLMClient) -> str:
        return (await client.run(MESSAGES, tools=[weather])).text

    assert asynchronously(server, work, telemetry=False) == "Blue."
