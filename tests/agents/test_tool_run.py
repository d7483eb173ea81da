"""A model with tools as an agent: over real connections, and with a process that dies anywhere."""

import asyncio
import json
import threading
from collections import Counter
from typing import Any

import pytest

from coreason_client import CAPClient
from coreason_client.agents.llm import llm_agent
from coreason_client.llm import LLMRateLimitError, LLMRequestError, Tool, ToolAbort
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from tests.cli.models import MODEL, chunk, model, spoken, streamed
from tests.cli.models import Model as Served
from tests.llm.server import Replied
from tests.llm.tools.answers import response
from tests.llm.tools.scripted import Model

from . import durable
from .test_llm import events, failure, llm_client, read, request, serving, text

CITIES = ["Rome", "Oslo"]


def called(*cities: str, text: str = "") -> Replied:
    """A stream in which the model calls the tool for some cities."""
    calls = [
        {
            "index": number,
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "weather", "arguments": json.dumps({"city": city})},
        }
        for number, city in enumerate(cities)
    ]
    begin = [chunk(content=text)] if text else []
    return streamed([*begin, chunk(tool_calls=calls), *spoken(finish="tool_calls")])


def said(*texts: str) -> Replied:
    return streamed(spoken(*texts))


def weather(city: str) -> str:
    """Return the weather."""
    if city == "Atlantis":
        raise ValueError("no such city")
    if city == "Home":
        raise ToolAbort("private")
    return f"blue in {city}"


def shown(packets: Any) -> list[tuple[str, Any]]:
    found = []
    for event in events(packets):
        assert isinstance(event, dict)
        data = dict(event["data"])
        if "seconds" in data:
            assert 0 <= data.pop("seconds") < 10
        found.append((event["type"], data))
    return found


def test_calls_and_results_are_events_of_the_stream() -> None:
    with (
        model(called(*CITIES, text="Let me see."), said("Both ", "blue.")) as served,
        serving(served, tools=[weather]) as client,
    ):
        packets = read(client, request("What is the weather?"))
    assert text(packets) == "Let me see.\n\nBoth blue."
    *calls, usage = shown(packets)
    assert calls == [
        *(
            (
                "TOOL_CALL",
                {"turn": 1, "call_id": f"call_{n}", "name": "weather", "arguments": {"city": city}},
            )
            for n, city in enumerate(CITIES)
        ),
        *(
            (
                "TOOL_RESULT",
                {
                    "turn": 1,
                    "call_id": f"call_{n}",
                    "name": "weather",
                    "result": f"blue in {city}",
                    "is_error": False,
                },
            )
            for n, city in enumerate(CITIES)
        ),
    ]
    assert usage[0] == "USAGE"
    assert (usage[1]["turns"], usage[1]["total_tokens"]) == (2, 2 * 29)
    assert usage[1]["finish_reason"] == "stop"
    assert _roles(served) == ["user", "assistant", "tool", "tool"]


def _roles(served: Served) -> list[str]:
    return [role for role, _ in served.sent()]


def test_a_message_to_the_running_agent_goes_to_the_model_with_the_results() -> None:
    called_now, said_now = threading.Event(), threading.Event()

    def slow(city: str) -> str:
        """Return the weather, when the user has said more."""
        called_now.set()
        assert said_now.wait(10)
        return "blue"

    with model(called("Rome"), said("Blue.")) as served:
        tools = [Tool(slow, name="weather")]
        app = AgentApp(llm_agent(MODEL, client=llm_client(served), tools=tools), inbox=True)
        with (
            running(app) as server,
            CAPClient(server.url, "key") as client,
            client.assist(request("What is the weather?")) as packets,
        ):
            first = next(packets)
            assert called_now.wait(10)
            client.send(first.stream_id, "In Fahrenheit, please.")
            said_now.set()
            assert text([first, *packets]) == "Blue."
        sent = served.sent()
    assert [role for role, _ in sent] == ["user", "assistant", "tool", "user"]
    assert sent[-1] == ("user", "In Fahrenheit, please.")


def test_calls_can_be_hidden() -> None:
    with (
        model(called("Rome"), said("Blue.")) as served,
        serving(served, tools=[weather], tool_events=False) as client,
    ):
        packets = read(client, request("What is the weather?"))
    assert [kind for kind, _ in shown(packets)] == ["USAGE"]


def test_an_error_of_a_tool_is_shown_and_the_model_goes_on() -> None:
    with (
        model(called("Atlantis"), said("Sunk.")) as served,
        serving(served, tools=[weather]) as client,
    ):
        packets = read(client, request("What is the weather?"))
    result = shown(packets)[1][1]
    assert (result["is_error"], result["result"]) == (True, "Error: ValueError: no such city")
    assert text(packets) == "Sunk."


def shown_result(result: str, **options: Any) -> str:
    """Return what readers get of a result."""

    def tell(city: str) -> str:
        return result

    tell.__name__ = "weather"
    with (
        model(called("Rome"), said("Ok.")) as served,
        serving(served, tools=[tell], **options) as client,
    ):
        packets = read(client, request("What is the weather?"))
    assert text(packets) == "Ok."
    return str(shown(packets)[1][1]["result"])


@pytest.mark.parametrize(
    ("length", "options", "kept"),
    [
        (65_536, {}, 65_536),
        (65_537, {}, 65_536),
        (150_000, {}, 65_536),  # more than the model gets, which is cut first
        (4_001, {"max_tool_result": 5_000}, 4_001),
        (4_001, {"max_tool_result": 4_000}, 4_000),
        (150_000, {"max_tool_result": 10**12}, 100_000),
        (1, {"max_tool_result": 0}, 0),
    ],
)
def test_a_long_result_is_cut_with_a_mark_and_its_length(
    length: int, options: dict[str, Any], kept: int
) -> None:
    mark = f"\n[truncated: the first {kept} of {length} characters]"
    expected = "x" * kept + (mark if kept < length else "")
    assert shown_result("x" * length, **options) == expected


def test_no_result_is_too_long_for_a_packet() -> None:
    worst = "\x01" * 2_000_000  # six bytes of JSON each
    assert shown_result(worst, max_tool_result=10**12).startswith("\x01" * 100_000)


@pytest.mark.parametrize(
    ("replies", "options", "code"),
    [
        ([called("Rome")], {"max_turns": 2}, "run_limit"),
        ([called("Home")], {}, "tool_aborted"),
        ([called("Atlantis")], {}, "tool_failed"),
        ([called("Rome"), Replied(429)], {}, "model_rate_limit"),
    ],
)
def test_a_run_without_an_answer_ends_the_stream(
    replies: list[Replied], options: dict[str, Any], code: str
) -> None:
    with (
        model(*replies) as served,
        serving(served, tools=[weather], **options) as client,
    ):
        _, error = failure(client, request("What is the weather?"))
    assert error.code == code
    assert error.details is not None
    assert error.details["usage"]["total_tokens"] % 29 == 0
    assert error.details["usage"]["total_tokens"] > 0


def test_arguments_that_are_not_an_object_are_an_error_of_the_tool() -> None:
    function = {"name": "weather", "arguments": '{"city": '}
    call = {"index": 0, "id": "call_0", "type": "function", "function": function}
    broken = streamed([chunk(tool_calls=[call]), *spoken(finish="tool_calls")])
    with model(broken, said("Sorry.")) as served, serving(served, tools=[weather]) as client:
        packets = read(client, request("What is the weather?"))
    _, (kind, data), _ = shown(packets)
    assert (kind, data["is_error"]) == ("TOOL_RESULT", True)
    assert "not a JSON object" in data["result"]
    assert text(packets) == "Sorry."


def test_wrong_tools_are_refused_when_the_agent_is_made() -> None:
    with pytest.raises(LLMRequestError, match=r"tools\[0\]"):
        llm_agent("m", tools=[5])  # type: ignore[list-item]
    with pytest.raises(LLMRequestError, match="max_turns"):
        llm_agent("m", max_turns=0)
    with pytest.raises(LLMRequestError, match="max_tool_result must be a whole number, 0 or more"):
        llm_agent("m", max_tool_result=-1)


# Durable.

SCRIPT = [
    response(*(("weather", {"city": city}) for city in CITIES), content="Let me see."),
    response(("weather", {"city": "Atlantis"})),
    response(content="Both are blue."),
]


@pytest.mark.parametrize("fails", [False, True])
def test_a_process_may_die_at_any_time(*, fails: bool) -> None:
    done: list[str] = []

    def counted(city: str) -> str:
        done.append(city)
        return weather(city)

    counted.__name__ = "weather"
    script: list[Any] = list(SCRIPT)
    if fails:
        script[2] = LLMRateLimitError("slow down", retry_after=3.0)

    def agent() -> Any:
        client: Any = Model(*script)
        return llm_agent("m", client=client, tools=[counted])

    async def go() -> None:
        expected, appends = await durable.undisturbed(agent(), durable.request())
        for number in range(appends):
            for stored in (False, True):
                done.clear()
                answer = await durable.run(agent(), durable.request(), [(number, stored)])
                assert answer.outcome == expected.outcome
                assert _without_seconds(answer) == _without_seconds(expected)
                # Only what the death interrupted was done again, also by the process before it.
                assert max(Counter(done).values(), default=0) <= 2

    asyncio.run(go())


def _without_seconds(answer: Any) -> list[tuple[str, Any]]:
    packets = durable.shown(answer)
    for op, payload in packets:
        if op == "EVENT":
            payload["data"].pop("seconds", None)
    return packets


def test_the_reports_of_an_own_agent_survive_its_process() -> None:
    async def find(city: str) -> str:
        return f"blue in {city}"

    async def agent(asked: ServiceRequest, stream: AgentStream) -> None:
        for city in CITIES:
            call_id = await stream.tool_call("find", {"city": city})
            await stream.tool_result(call_id, await stream.step("find", find, city))
            await stream.usage(prompt_tokens=1, completion_tokens=2)
        await stream.write("Both are blue.")

    async def go() -> None:
        _, appends = await durable.undisturbed(agent, durable.request())
        for number in range(appends):
            for stored in (False, True):
                answer = await durable.run(agent, durable.request(), [(number, stored)])
                assert [event["type"] for op, event in answer.packets if op == "EVENT"] == [
                    *["TOOL_CALL", "TOOL_RESULT", "USAGE"] * 2
                ]
                calls, results = (
                    [data["call_id"] for data in durable.events(answer, kind)]
                    for kind in ("TOOL_CALL", "TOOL_RESULT")
                )
                assert calls == results
                assert len(set(calls)) == 2

    asyncio.run(go())
