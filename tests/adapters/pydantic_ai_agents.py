# mypy: ignore-errors
"""Serves agents of pydantic-ai with fake models, in an environment that has it.

Arguments: the file of the log, and a folder in which tools write notes and models wait for files.
The first line of its output is a JSON object: the URL, and what pydantic-ai itself says.
"""

import asyncio
import json
import sys
from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import NativeToolCallPart, NativeToolReturnPart, ToolReturnPart
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import FunctionToolset

from coreason_client.adapters.pydantic_ai import as_agent
from coreason_client.server import AgentApp, AgentGroup, AgentStream, SQLiteStreamLog, running

LOG, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
KEYS = {"1" * 32: "one", "2" * 32: "two"}


def note(name: str) -> None:
    with (FOLDER / name).open("a") as file:
        file.write("x")


async def wait_for(name: str) -> None:
    while not (FOLDER / name).exists():  # noqa: ASYNC110 - the test creates it
        await asyncio.sleep(0.01)


def call(index: int, **arguments: object) -> dict[int, DeltaToolCall]:
    text = json.dumps(arguments)
    return {index: DeltaToolCall(name="add", json_args=text, tool_call_id=f"call-{index}")}


async def calculate(messages, info):
    """Think, call the tool once or twice, and answer with its results."""
    results = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    question = next(p.content for p in reversed(messages[-1 - 2 * bool(results)].parts))
    if question == "fail":
        raise OSError("secret")
    if "hold before" in question and results:
        await wait_for("go")
    if results:
        yield "It is "
        if "hold middle" in question:
            await wait_for("go")
        yield f"{' and '.join(part.model_response_str() for part in results)}."
        if messages[-1].instructions:
            yield f" {messages[-1].instructions}"
        return
    yield {0: DeltaThinkingPart(content="One moment.\n\nI ")}
    yield {0: DeltaThinkingPart(content="add.")}
    yield "Let me "
    yield {5: DeltaThinkingPart(content="Yes.")}  # the text goes on after it
    if "live" in question:
        await wait_for("go")
    yield "see."
    yield call(1, a=1, b="x" if "wrong" in question else 2)
    if "twice" in question:
        yield call(2, a=10, b=20)


def calculator(name: str, **options: object) -> Agent:
    agent = Agent(FunctionModel(stream_function=calculate), name=name)

    @agent.tool_plain(**options)
    async def add(a: int, b: int) -> int:
        note(f"{name}-began")
        if name == "careful":
            await wait_for("go")
        if b == 0:
            raise ModelRetry("not zero")
        note(f"{name}-ended")
        return a + b

    return agent


async def remember(messages, info):
    """Answer with all that the model got."""
    yield json.dumps(
        {
            "messages": [
                [
                    part.part_kind,
                    part.content if isinstance(part.content, str) else len(part.content),
                ]
                for message in messages
                for part in message.parts
            ],
            "kinds": [type(p).__name__ for p in messages[-1].parts[-1].content],
            "instructions": messages[-1].instructions,
            "name": memory.name,
        }
    )


memory = Agent(
    FunctionModel(stream_function=remember), system_prompt="A prompt.", instructions="Be brief."
)


class City(BaseModel):
    name: str
    people: int


typed = Agent(TestModel(custom_output_args={"name": "Rome", "people": 3}), output_type=City)
either = Agent(TestModel(), output_type=str | City)
validated = Agent(TestModel(custom_output_text="quiet"))


@validated.output_validator
def louder(text: str) -> str:
    return text.upper()


with_deps = Agent(TestModel(), deps_type=str)


@with_deps.tool
def who(context: RunContext[str]) -> list[object]:
    return [context.deps, b"\xff", float("nan")]


async def search(messages, info):
    """Answer with a search that the provider executes."""
    yield {0: NativeToolCallPart("web_search", {"words": "Rome"}, tool_call_id="search-1")}
    yield {1: NativeToolReturnPart("web_search", ["a page"], tool_call_id="search-1")}
    yield "Found."


searching = Agent(FunctionModel(stream_function=search))
nameless = Agent(FunctionModel(stream_function=search))
nameless.model._model_name = ""  # as from a server that sends none
keyed = Agent(TestModel(), deps_type=AgentStream)


@keyed.tool
def key(context: RunContext[AgentStream]) -> str:
    return context.deps.step_key()


async def own_text(agent: Agent, question: str) -> str:
    """Return the texts of the model in a run of pydantic-ai itself."""
    async with agent.run_stream_events(question) as events:
        *_, last = [event async for event in events]
    messages = last.result.new_messages()
    return "\n\n".join(m.text for m in messages if m.kind == "response" and m.text)


def refusal() -> str:
    agent = Agent(TestModel(), toolsets=[FunctionToolset([louder])])
    try:
        AgentApp(agent, log=LOG_OBJECT, durable=True)
    except ValueError as error:
        return str(error)
    return ""


LOG_OBJECT = SQLiteStreamLog(LOG)
plain = calculator("plain")
approving = calculator("approving", requires_approval=True)
AGENTS = {
    "plain": (plain, False),
    "durable": (calculator("durable"), True),
    "careful": (calculator("careful", metadata={"on_restart": "fail"}), True),
    "approving": (approving, False),
    "approving-durable": (calculator("approving-durable", requires_approval=True), True),
    "memory": (memory, False),
    "memory-durable": (memory, True),
    "typed": (typed, False),
    "typed-durable": (typed, True),
    "either": (either, False),
    "validated": (validated, False),
    "deps": (as_agent(with_deps, deps=lambda request, stream: stream.principal.name), False),
    "searching": (searching, False),
    "searching-durable": (searching, True),
    "nameless": (nameless, False),
    "keyed": (as_agent(keyed, deps=lambda request, stream: stream), True),
}
apps = [
    AgentApp(
        agent,
        log=LOG_OBJECT,
        durable=durable,
        agent_id=name,
        api_keys=KEYS,
        drain_timeout=0.1,
        a2a=True,
        ai_sdk=True,
        ag_ui=True,
    )
    for name, (agent, durable) in AGENTS.items()
]
own = {
    "add": asyncio.run(own_text(plain, "add")),
    "add twice": asyncio.run(own_text(plain, "add twice")),
    "either": either.run_sync("?").output,
    "validated": validated.run_sync("?").output,
    "typed": typed.run_sync("?").output.model_dump(),
}
with running(AgentGroup(apps)) as server:
    print(json.dumps({"url": server.url, "own": own, "refusal": refusal()}), flush=True)
    sys.stdin.read()
