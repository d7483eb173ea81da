"""Agents of the OpenAI Agents SDK with a fake model, in a process that has the SDK.

Each line of stdin is a request, as JSON, and each line of stdout an answer. `serve` and `own` are
done in a copy of this process, because the SDK takes seconds to import. The model does what the
last message of the user says; see `reply`.
"""

# mypy: disable-error-code="import-not-found,misc,untyped-decorator"

import asyncio
import gc
import importlib
import json
import os
import runpy
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as McpTool
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response_function_web_search import ActionSearch
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from agents import (
    Agent,
    GuardrailFunctionOutput,
    Model,
    ModelProvider,
    ModelResponse,
    RunConfig,
    Runner,
    Usage,
    function_tool,
    handoff,
    input_guardrail,
)
from coreason_client.adapters.openai_agents import as_agent
from coreason_client.server import AgentApp, AgentStream, SQLiteStreamLog, running
from tests.preloaded import PROJECT
from tests.preloaded.template import LIBRARIES

# The file for what tools and model have done, the word before which the model waits, and the first
# word of its answers with results.
OPTIONS = {"notes": os.devnull, "hold": "", "first": "The"}


def note(text: str) -> None:
    with Path(OPTIONS["notes"]).open("a") as file:
        file.write(f"{text}\n")


def tell(**answer: Any) -> None:
    print(json.dumps(answer), flush=True)


def message(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[part]
    )


def call(name: str, call_id: str, **arguments: Any) -> ResponseFunctionToolCall:
    given = json.dumps(arguments)
    return ResponseFunctionToolCall(
        id=call_id, call_id=call_id, type="function_call", name=name, arguments=given
    )


def searched(query: str) -> ResponseFunctionWebSearch:
    action = ActionSearch(type="search", query=query)
    return ResponseFunctionWebSearch(
        id="w", type="web_search_call", status="completed", action=action
    )


def text_of(item: Any) -> str:
    content = item["content"]
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", part["type"]) for part in content)


def output_text(output: Any) -> str:
    return output if isinstance(output, str) else " ".join(part["text"] for part in output)


class Fake(Model):
    """Answers with what `reply` returns, a word at a time."""

    async def get_response(self, *given: Any, **options: Any) -> Any:
        return ModelResponse(output=reply(options["input"]), usage=Usage(), response_id="r")

    async def stream_response(
        self, _: Any, given: Any, *others: Any, **options: Any
    ) -> AsyncIterator[Any]:
        items = given if isinstance(given, list) else [{"role": "user", "content": given}]
        output = reply(items)
        note("model " + output[-1].type)
        number = 0
        for index, item in enumerate(output):
            if item.type == "message":
                for word in item.content[0].text.split(" "):
                    if word == OPTIONS["hold"]:
                        tell(held=word)
                        await asyncio.Event().wait()
                    number += 1
                    yield ResponseTextDeltaEvent(
                        type="response.output_text.delta",
                        delta=word if number == 1 else f" {word}",
                        item_id="m",
                        output_index=index,
                        content_index=0,
                        logprobs=[],
                        sequence_number=0,
                    )
            yield ResponseOutputItemDoneEvent(
                type="response.output_item.done", item=item, output_index=index, sequence_number=0
            )
        usage = ResponseUsage(
            input_tokens=len(items),
            output_tokens=7,
            total_tokens=len(items) + 7,
            input_tokens_details=InputTokensDetails(cached_tokens=1, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=2),
        )
        response = Response(
            id="r",
            created_at=0,
            model="fake",
            object="response",
            output=output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
            usage=usage,
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=0
        )


def reply(items: list[Any]) -> list[Any]:
    """Return the items of the next answer."""
    begin = max(n for n, item in enumerate(items) if item.get("role") == "user")
    command, *words = text_of(items[begin]).split()
    ended = [item for item in items[begin:] if "output" in item]
    outputs = [output_text(item["output"]) for item in ended]
    if command == "search":
        return [searched(words[0]), message("Found.")]
    if command == "loop":
        return [call("clock", f"c{len(outputs)}")]
    if command == "handoff" and len(outputs) == 1:
        delete_or_look = {"delete": call("delete", "d-x", path="x")}
        look = call("weather", "c1", city="Oslo")
        return [message("I look."), delete_or_look.get(words[0], look)]
    if outputs and outputs[-1].endswith('{"path":"other"}'):
        return [call("delete", "d-other", path="other")]
    if outputs:
        return [message(f"{OPTIONS['first']} results are {' and '.join(outputs)} so far.")]
    return first_reply(command, words) or echo(items)


def first_reply(command: str, words: list[str]) -> list[Any]:
    """Return calls, if the command is one."""
    if command == "weather":
        return [call("weather", "c1", city=words[0]), call("clock", "c/2#@")]
    if command == "handoff":
        return [call("transfer_to_writer", "h1")]
    if command == "delete":
        return [call("delete", f"d-{path}", path=path) for path in words]
    if command == "twice":
        return [call("helper", f"c-{path}", input=f"same {path}") for path in words]
    if command == "same":
        return [call("delete", "d", path=words[0])]
    if command in ("move", "pay", "echo", "helper"):
        given = dict(word.replace("+", " ").split("=") for word in words)
        return [call(command, "c1", **given)]
    return []


def echo(items: list[Any]) -> list[Any]:
    """Return a thought, and the messages so far."""
    said = " | ".join(text_of(item) for item in items if item.get("role") in ("user", "assistant"))
    thought = Summary(type="summary_text", text="It is easy.")
    return [ResponseReasoningItem(id="t", type="reasoning", summary=[thought]), message(said)]


@function_tool
def weather(city: str) -> str:
    """Return the weather."""
    note(f"weather {city}")
    return f"sun in {city}"


@function_tool
async def clock() -> dict[str, Any]:
    """Return the time."""
    note("clock")
    return {"hour": 12, "zones": ("UTC",)}


@function_tool(needs_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    note(f"delete {path}")
    return f"{path} deleted"


async def policy(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
    return bool(arguments["path"] != "safe")


@function_tool(needs_approval=policy)
def move(path: str, force: bool = False) -> str:
    """Move a file."""
    note(f"move {path}")
    return f"{path} moved"


@function_tool
async def pay() -> str:
    """Pay, which takes a while."""
    note("pay")
    if OPTIONS["hold"] == "pay":
        tell(held="pay")
        await asyncio.Event().wait()
    return "paid"


class Local(MCPServer):
    """A server of the Model Context Protocol with one tool, in this process."""

    name = "local"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, *given: Any) -> list[Any]:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return [McpTool.model_validate({"name": "echo", "inputSchema": schema})]

    async def call_tool(self, name: str, arguments: Any, meta: Any = None) -> Any:
        note(f"echo {arguments['text']}")
        return CallToolResult(content=[TextContent(type="text", text=arguments["text"])])

    async def list_prompts(self) -> Any: ...

    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


def ignore(event: Any) -> None: ...


class Named(ModelProvider):
    """A provider with one model."""

    def get_model(self, model_name: str | None) -> Model:
        assert model_name == "named"
        return Fake()


@input_guardrail
def polite(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
    rude = "rude" in str(given)
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=rude)


CONFIG = RunConfig(tracing_disabled=True, model_provider=Named())
writer = Agent(name="writer", model=Fake(), tools=[weather, delete])
careful = Agent(name="careful", model=Fake(), tools=[delete])
helper = Agent(name="helper", model="named", tools=[delete])
AGENTS = {
    "plain": Agent(name="plain", model=Fake()),
    "tools": Agent(name="tools", model=Fake(), tools=[weather, clock]),
    "last": Agent(
        name="last", model=Fake(), tools=[weather, clock], tool_use_behavior="stop_on_first_tool"
    ),
    "triage": Agent(name="triage", model=Fake(), handoffs=[handoff(writer)]),
    "named": Agent(name="named", model="named", tools=[clock], input_guardrails=[polite]),
    "mover": Agent(name="mover", model=Fake(), tools=[move]),
    "payer": Agent(name="payer", model=Fake(), tools=[pay]),
    "echo": Agent(name="echo", model=Fake(), mcp_servers=[Local()]),
    "careful": careful,
    "nested": Agent(
        name="nested", model=Fake(), tools=[helper.as_tool("helper", "Help.", on_stream=ignore)]
    ),
}


def context(stream: AgentStream) -> dict[str, str]:
    """Return the context of a run, which must not be stored."""
    return {"secret": f"of {stream.principal.name}"}


def served(name: str, durable: bool, once: list[str]) -> None:
    """Serve an agent until this process is killed, and say whether its objects have changed."""
    app = AgentApp(
        as_agent(AGENTS[name], run_config=CONFIG, context=context, max_turns=4, once=once),
        log=SQLiteStreamLog(Path(OPTIONS["notes"]).with_name("log.db")),
        durable=durable,
        api_keys={"1" * 32: "one", "2" * 32: "two"},
    )
    before = state()
    signal.signal(signal.SIGUSR1, lambda *_: tell(unchanged=state() == before))
    with running(app) as server:
        tell(url=server.url, pid=os.getpid())
        while True:
            signal.pause()


def state() -> list[dict[str, Any]]:
    """Return the attributes of all objects of the user; functions and models by their identity."""
    tools = [tool for agent in (*AGENTS.values(), writer) for tool in agent.tools]
    handoffs = [made for agent in AGENTS.values() for made in agent.handoffs]
    objects = [*AGENTS.values(), writer, *tools, *handoffs, CONFIG]
    return [
        {name: list(value) if isinstance(value, list) else id(value) for name, value in attributes}
        for attributes in (vars(thing).items() for thing in objects)
    ]


def page(path: str, environment: dict[str, str]) -> None:
    """Serve the application of a program until this process is killed."""
    os.chdir(Path(OPTIONS["notes"]).parent)
    os.environ.update(environment, OPENAI_AGENTS_DISABLE_TRACING="1")
    program = runpy.run_path(path, run_name="page")
    with running(program["app"]) as server:
        tell(url=server.url, pid=os.getpid())
        signal.pause()


def own(name: str, text: str) -> None:
    """Answer as the SDK itself does."""

    async def run() -> Any:
        result = Runner.run_streamed(AGENTS[name], text, run_config=CONFIG)
        async for _ in result.stream_events():
            pass
        return result.final_output

    tell(text=asyncio.run(run()))


def main() -> None:
    for module in (*LIBRARIES, *PROJECT):  # what copies would import
        importlib.import_module(module)
    gc.freeze()
    tell(ready=True)
    for line in sys.stdin:
        request = json.loads(line)
        if pid := request.get("signal"):
            os.kill(pid, signal.SIGUSR1)
        elif pid := request.get("kill"):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            tell(ended=pid)
        elif (pid := os.fork()) == 0:
            OPTIONS.update(request.get("options", {}))
            do: Any = {"own": own, "page": page, "serve": served}[request["do"]]
            do(**request["arguments"])
            os._exit(0)


if __name__ == "__main__":
    main()
