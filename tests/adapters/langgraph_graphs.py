"""Graphs for the tests, and a server for one of them: a program of its own process.

    python -m tests.adapters.langgraph_graphs serve NAMES FOLDER
        serve graphs, until stdin is closed
    python -m tests.adapters.langgraph_graphs own NAME FOLDER QUESTION
        print what the graph itself answers

A name is that of a graph, whether it is durable, and its checkpointer: `tools/durable/sqlite`.
Several names have a comma between them; the URLs of the servers are printed in the same order.

What a node or a tool does is noted in a file of the folder. A model that finds the file `hold`
there says the first word of an answer and waits, until it is killed.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"

import asyncio
import json
import operator
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import (
    FakeMessagesListChatModel,
    GenericFakeChatModel,
)
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send, interrupt
from pydantic import BaseModel

from coreason_client.adapters.langgraph import as_agent
from coreason_client.server import (
    AGUI,
    AgentApp,
    AgentStream,
    AnsweredQuestion,
    ServiceRequest,
    SQLiteStreamLog,
    running,
)

FOLDER = Path(sys.argv[3])
KEYS = {"1" * 32: "one", "2" * 32: "two"}


def note(word: str) -> None:
    """Note that something was done."""
    with (FOLDER / "notes").open("a") as notes:
        notes.write(f"{word}\n")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    note(f"add {a} {b}")
    return a + b


@tool
def delete(path: str) -> str:
    """Delete a file."""
    note(f"delete {path}")
    return f"{path} is gone"


@tool
async def risk(act: str) -> str:
    """Fail, or wait without an end."""
    if act == "fail":
        raise LookupError("as it was told")
    await asyncio.Event().wait()
    return act


class Scripted(BaseChatModel):
    """A model that calls a tool, and says its result when it has it."""

    call: dict[str, Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        chunks = list(self._chunks(messages))
        whole = message_chunk_to_message(sum(chunks[1:], chunks[0]))
        return ChatResult(generations=[ChatGeneration(message=whole)])

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for number, chunk in enumerate(self._chunks(messages)):
            if number and (FOLDER / "hold").exists() and isinstance(messages[-1], ToolMessage):
                await asyncio.Event().wait()
            yield ChatGenerationChunk(message=chunk)

    def _chunks(self, messages: list[Any]) -> Iterator[AIMessageChunk]:
        note("model")
        asked = sum(isinstance(message, HumanMessage) for message in messages)
        if isinstance(messages[-1], ToolMessage):
            words = f"Result {asked}: {messages[-1].content}."
            if (FOLDER / "changed").exists():
                words = f"Result: {messages[-1].content}!"
        else:
            words = "Let me see."
        for word in words.split(" "):
            yield AIMessageChunk(word if word == words.split(" ")[-1] else f"{word} ")
        if not isinstance(messages[-1], ToolMessage):
            call = {"index": 0, "id": f"call-{asked}", **self.call}
            call["args"] = json.dumps(call["args"])
            yield AIMessageChunk("", tool_call_chunks=[call])
        used = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}
        yield AIMessageChunk("", usage_metadata=used, response_metadata={"model_name": "scripted"})


class Strict(Scripted):
    """A model that rejects a call without a result, as providers do, and says all results."""

    def _chunks(self, messages: list[Any]) -> Iterator[AIMessageChunk]:
        missing: list[str] = []
        for message in messages:
            if isinstance(message, ToolMessage):
                missing.remove(message.tool_call_id)
                continue
            if missing:
                raise ValueError(f"calls without a result: {missing}")
            missing = [call["id"] for call in getattr(message, "tool_calls", [])]
        asked = messages[-1].text
        if asked in ("fail", "wait"):
            given: dict[str, Any] = {"add": {"a": 1, "b": 2}} if asked == "wait" else {}
            given["risk"] = {"act": asked}
            calls = [
                {"index": index, "id": name, "name": name, "args": json.dumps(arguments)}
                for index, (name, arguments) in enumerate(given.items())
            ]
            yield AIMessageChunk("", tool_call_chunks=calls)
        results = [one for one in messages if isinstance(one, ToolMessage)]
        yield AIMessageChunk("; ".join(f"{one.name} {one.status}: {one.text}" for one in results))


def strict_graph() -> Any:
    """LangChain's agent with a tool that fails or does not end."""
    model = Strict(call={})
    return lambda checkpointer: create_agent(model, [add, risk], checkpointer=checkpointer)


class Deleting(Scripted):
    """A model that deletes two files at once, and says what has become of them."""

    def _chunks(self, messages: list[Any]) -> Iterator[AIMessageChunk]:
        results = [one.text for one in messages if isinstance(one, ToolMessage)]
        calls = [
            {"index": index, "id": path, "name": "delete", "args": json.dumps({"path": path})}
            for index, path in enumerate("" if results else "xy")
        ]
        yield AIMessageChunk("; ".join(results), tool_call_chunks=calls)


def some_calls_graph() -> Any:
    """LangChain's agent, which asks for one of two calls of the same tool."""
    asks: Any = {
        "allowed_decisions": ["approve", "reject"],
        "when": lambda request: request.tool_call["args"]["path"] == "x",
    }
    middleware = [HumanInTheLoopMiddleware(interrupt_on={"delete": asks})]
    return lambda checkpointer: create_agent(
        Deleting(call={}), [delete], middleware=middleware, checkpointer=checkpointer
    )


def both_calls_graph() -> Any:
    """LangChain's agent, with one question for two calls."""
    asks = HumanInTheLoopMiddleware(interrupt_on={"delete": True})
    return lambda checkpointer: create_agent(
        Deleting(call={}), [delete], middleware=[asks], checkpointer=checkpointer
    )


def mood_graph() -> Any:
    """A graph that asks only if it is told to."""

    def node(state: MessagesState) -> Any:
        mood = interrupt("Sure?") if state["messages"][-1].text == "ask" else "good"
        return {"messages": [AIMessage(f"It is {mood}.")]}

    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile


def sent_graph() -> Any:
    """Two runs of one node at the same time, whose models say each word together."""
    together = asyncio.Barrier(2)

    class Together(Scripted):
        """A model that waits for another one before each word."""

        async def _astream(self, *given: Any, **options: Any) -> AsyncIterator[ChatGenerationChunk]:
            for word in ("One ", "two ", "three. "):
                await together.wait()
                yield ChatGenerationChunk(message=AIMessageChunk(word))

    async def work(state: MessagesState) -> Any:
        return {"messages": [await Together(call={}).ainvoke(state["messages"])]}

    def fan_out(state: MessagesState) -> Any:
        return [Send("work", state)] * 2

    builder = StateGraph(MessagesState).add_node("work", work)
    return builder.add_conditional_edges(START, fan_out, ["work"]).compile


class City(BaseModel):
    """A structured answer."""

    name: str
    inhabitants: int


def structured_graph() -> Any:
    """LangChain's agent, whose answer is a call of a tool."""
    model = Scripted(call={"name": "City", "args": {"name": "Rome", "inhabitants": 3}})
    return lambda checkpointer: create_agent(
        model, [], response_format=ToolStrategy(City), checkpointer=checkpointer
    )


class Json(Scripted):
    """A model that answers with JSON."""

    def _chunks(self, messages: list[Any]) -> Iterator[AIMessageChunk]:
        yield from map(AIMessageChunk, ('{"name":"Rome",', '"inhabitants":3}'))


def json_graph() -> Any:
    """LangChain's agent, whose answer is text that the provider has checked."""
    response_format = ProviderStrategy(City)
    return lambda checkpointer: create_agent(
        Json(call={}), [], response_format=response_format, checkpointer=checkpointer
    )


def tools_graph() -> Any:
    model = Scripted(call={"name": "add", "args": {"a": 1, "b": 2}})

    async def think(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("think", think)
    builder.add_node("tools", ToolNode([add]))
    builder.add_edge(START, "think")
    builder.add_conditional_edges("think", tools_condition)
    builder.add_edge("tools", "think")
    return builder.compile


def fake_models_graph() -> Any:
    """A graph with LangChain's own fake models, one of which cannot stream."""
    calls = [{"name": "add", "args": {"a": 3, "b": 4}, "id": "c"}]
    first = FakeMessagesListChatModel(responses=[AIMessage("Adding.", tool_calls=calls)])
    second = GenericFakeChatModel(messages=iter([AIMessage("It is seven.")]))

    async def call(state: MessagesState) -> Any:
        return {"messages": [await first.ainvoke(state["messages"])]}

    async def tell(state: MessagesState) -> Any:
        return {"messages": [*state["messages"], await second.ainvoke(state["messages"])]}

    def close(state: MessagesState) -> Any:
        return {"messages": [AIMessage("Goodbye.")]}

    builder = StateGraph(MessagesState)
    builder.add_sequence(
        [("call", call), ("tools", ToolNode([add])), ("tell", tell), ("close", close)]
    )
    builder.add_edge(START, "call")
    return builder.compile


def custom_graph() -> Any:
    """A graph with another state than messages, whose node writes by itself."""

    class State(TypedDict):
        question: str
        answer: str

    def write(state: State) -> Any:
        writer = get_stream_writer()
        writer("words ")
        writer({"type": "MARKDOWN_BLOCK", "data": {"content": "# Title"}})
        writer({"done": 3})
        writer({"type": "CUSTOM", "data": state["question"].upper()})
        return {"answer": state["question"].upper()}

    builder = StateGraph(State)
    builder.add_node("write", write)
    builder.add_edge(START, "write")
    return builder.compile


def failing_graph() -> Any:
    """A graph whose second node fails at the word "fail"."""

    def first(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"{len(state['messages'])}")]}

    def second(state: MessagesState) -> Any:
        if state["messages"][-2].text == "fail":
            raise LookupError("as it was told")
        return {"messages": [AIMessage("fine")]}

    builder = StateGraph(MessagesState)
    builder.add_sequence([("first", first), ("second", second)])
    builder.add_edge(START, "first")
    return builder.compile


def routed_graph() -> Any:
    """A graph that chooses its way with a call that never has a result."""

    def route(state: MessagesState) -> Any:
        call = {"name": "route", "args": {}, "id": f"call-{len(state['messages'])}"}
        answer = AIMessage(f"{len(state['messages'])}")
        return {"messages": [AIMessage("", tool_calls=[call]), answer]}

    return StateGraph(MessagesState).add_node("route", route).add_edge(START, "route").compile


def approval_graph() -> Any:
    """LangChain's agent, which asks before it deletes."""
    model = Scripted(call={"name": "delete", "args": {"path": "x"}})
    middleware = [HumanInTheLoopMiddleware(interrupt_on={"delete": True})]
    return lambda checkpointer: create_agent(
        model, [delete], middleware=middleware, checkpointer=checkpointer
    )


def single_calls_graph() -> Any:
    """LangChain's agent, with a question for each call instead of one for all."""
    model = Scripted(call={"name": "delete", "args": {"path": "x"}})
    asks = HumanInTheLoopMiddleware(interrupt_on={"delete": True}, interrupt_mode="per_call")
    return lambda checkpointer: create_agent(
        model, [delete], middleware=[asks], checkpointer=checkpointer
    )


def nested_graph() -> Any:
    """A graph in a node of another one; its model reasons."""
    used = {
        "input_tokens": 9,
        "output_tokens": 5,
        "total_tokens": 14,
        "input_token_details": {"cache_read": 3},
        "output_token_details": {"reasoning": 2},
    }
    said = [{"type": "reasoning", "reasoning": "Two and two."}, {"type": "text", "text": "Four."}]

    async def think(state: MessagesState) -> Any:
        model = FakeMessagesListChatModel(responses=[AIMessage(said, usage_metadata=used)])
        return {"messages": [await model.ainvoke(state["messages"])]}

    def close(state: MessagesState) -> Any:
        return {"messages": [AIMessage("Done.")]}

    inner = StateGraph(MessagesState)
    inner.add_node("think", think)
    inner.add_edge(START, "think")
    outer = StateGraph(MessagesState)
    outer.add_sequence([("inner", inner.compile()), ("close", close)])
    outer.add_edge(START, "inner")
    return outer.compile


def nested_steps_graph() -> Any:
    """A graph of three nodes in a node of another one; the second one asks."""

    def say(word: str, *, asks: bool = False) -> Any:
        def node(_: MessagesState) -> Any:
            answer = f" {interrupt('Go on?')}" if asks else ""
            note(word)
            return {"messages": [AIMessage(word + answer)]}

        return node

    inner = StateGraph(MessagesState)
    steps = [("one", say("one")), ("two", say("two", asks=True)), ("three", say("three"))]
    inner.add_sequence(steps)
    inner.add_edge(START, "one")
    outer = StateGraph(MessagesState)
    outer.add_sequence([("inner", inner.compile()), ("close", say("Done."))])
    outer.add_edge(START, "inner")
    return outer.compile


def shout(asked: Any, answered: AnsweredQuestion) -> Any:
    if asked.response_schema:
        return answered.approved
    value = asked.value if isinstance(asked.value, str) else asked.value["question"]
    return f"{answered.text.upper()}/{value}"


class Words(TypedDict):
    """A state that collects words."""

    messages: Annotated[list[Any], operator.add]
    words: Annotated[list[str], operator.add]


def interrupts_graph() -> Any:
    """Two questions in one node, then two in nodes that run at the same time."""

    def name(state: Words) -> Any:
        note("name")
        first = interrupt("Your first name?")
        note(f"first {first}")
        last = interrupt({"question": "Your last name?"})
        return {"words": [first, last]}

    def asks(label: str) -> Callable[[Words], Any]:
        def ask(state: Words) -> Any:
            return {"words": [f"{label}={interrupt(f'{label}?', response_schema=bool)}"]}

        return ask

    def tell(state: Words) -> Any:
        note("tell")
        return {"messages": [AIMessage(" ".join(state["words"]))]}

    builder = StateGraph(Words)
    builder.add_node("name", name)
    builder.add_node("a", asks("a"))
    builder.add_node("b", asks("b"))
    builder.add_node("tell", tell)
    builder.add_edge(START, "name")
    builder.add_edge("name", "a")
    builder.add_edge("name", "b")
    builder.add_edge(["a", "b"], "tell")
    builder.add_edge("tell", END)
    return builder.compile


def parallel_graph() -> Any:
    """Three nodes at the same time, of which two ask; then one that closes."""

    def asks(question: str) -> Callable[[MessagesState], Any]:
        def ask(state: MessagesState) -> Any:
            return {"messages": [AIMessage(f"{question} {interrupt(question)}.")]}

        return ask

    def report(state: MessagesState) -> Any:
        note("report")
        used = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "call-1"}
        answer = AIMessage("The report.", tool_calls=[call], usage_metadata=used)
        return {"messages": [answer, ToolMessage("3", name="add", tool_call_id="call-1")]}

    def close(state: MessagesState) -> Any:
        return {"messages": [AIMessage("Done.")]}

    builder = StateGraph(MessagesState)
    builder.add_node("report", report)
    builder.add_node("a", asks("a?"))
    builder.add_node("b", asks("b?"))
    builder.add_node("close", close)
    for name in ("report", "a", "b"):
        builder.add_edge(START, name)
    builder.add_edge(["report", "a", "b"], "close")
    return builder.compile


def breakpoint_graph() -> Any:
    compile_ = tools_graph()
    return lambda checkpointer: compile_(checkpointer=checkpointer, interrupt_before=["tools"])


GRAPHS: dict[str, Any] = {
    "tools": (tools_graph, {}),
    "own": (tools_graph, {}),
    "hidden": (tools_graph, {"nodes": ["another"]}),
    "nested": (nested_graph, {"subgraphs": True}),
    "nested_steps": (nested_steps_graph, {"subgraphs": True}),
    "fakes": (fake_models_graph, {}),
    "custom": (
        custom_graph,
        {"input": lambda request, messages: {"question": messages[-1].text}},
    ),
    "failing": (failing_graph, {}),
    "strict": (strict_graph, {}),
    "routed": (routed_graph, {}),
    "structured": (structured_graph, {}),
    "hidden_structured": (structured_graph, {"nodes": ["another"]}),
    "json": (json_graph, {}),
    "approval": (approval_graph, {}),
    "calls": (single_calls_graph, {}),
    "some": (some_calls_graph, {}),
    "both": (both_calls_graph, {}),
    "mood": (mood_graph, {}),
    "interrupts": (interrupts_graph, {}),
    "shouted": (interrupts_graph, {"answer": shout}),
    "parallel": (parallel_graph, {}),
    "sent": (sent_graph, {}),
    "breakpoint": (breakpoint_graph, {}),
}


def agent(name: str, store: str) -> Any:
    make, options = GRAPHS[name]
    if store != "sqlite":
        saver = InMemorySaver() if store == "memory" else None
        made = as_agent(make()(checkpointer=saver), **options)

        async def call(request: ServiceRequest, stream: AgentStream) -> None:
            await made(request, stream)

        return call if name == "own" else made  # which `AgentApp` cannot check

    async def run_graph(request: ServiceRequest, stream: AgentStream) -> None:
        async with AsyncSqliteSaver.from_conn_string(str(FOLDER / f"{name}.db")) as saver:
            await as_agent(make()(checkpointer=saver), **options)(request, stream)

    return run_graph


def app(served: str) -> AgentApp:
    name, durable, store = served.split("/")
    log = SQLiteStreamLog(FOLDER / f"{served.replace('/', '-')}.streams")
    protocols: dict[str, Any] = {"openai": True, "ag_ui": AGUI(interrupts=True), "a2a": True}
    is_durable = durable == "durable"
    options: dict[str, Any] = {"log": log, "durable": is_durable, "api_keys": KEYS}
    return AgentApp(agent(name, store), agent_id=name, **options, **protocols)


def serve(names: str) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(running(app(served))) for served in names.split(",")]
        print(*(server.url for server in servers), flush=True)
        sys.stdin.read()


def own(name: str, question: str) -> None:
    make, _ = GRAPHS[name]
    graph = make()(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "own"}}
    result = asyncio.run(graph.ainvoke({"messages": [HumanMessage(question)]}, config))
    said = [message for message in result["messages"] if isinstance(message, AIMessage)]
    print(json.dumps({"text": "\n\n".join(str(message.text) for message in said)}))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        own(sys.argv[2], sys.argv[4])
