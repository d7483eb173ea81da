"""A graph of LangGraph as an agent.

Tested with langgraph 1.2.22, langgraph-checkpoint-sqlite 3.1.2 and langchain 1.4.7.

The graph's checkpointer keeps the state of a conversation. In a durable application each superstep
of the graph is a step, and these rules make it continue where it was:

* LangGraph is run with `durability="sync"`: it saves the checkpoint of a superstep before the next
  one starts. All that a superstep writes is in the log before its checkpoint is saved.
* After a restart, a superstep with a checkpoint is complete, even if the journal does not say so.
* Any other superstep is run again from the checkpoint before it, without the input. What it writes
  is compared with the log, and the first difference is rewound.
* A node that had ended in such a superstep is not run again. LangGraph has kept its messages, so
  what the log does not have of them is written.
* The input, or the answer to an interrupt, is sent only if the thread does not have it.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final

from pydantic_core import to_json

from coreason_manifest.definitions.service import ServiceRequest

from ..agents._output import MAX_PIECE, PARAGRAPH, TurnOutput, as_text, shown
from ..agents._prompt import conversation, refusing, whole_conversation
from ..errors import ArgumentError
from ..server import AgentStream, AnsweredQuestion
from ..server.engine._agent import write_item
from ..server.engine._conversation import RequestWithHistory, new_messages
from . import AgentFunction, imported, logger, named

__all__ = ["as_agent"]

_MODES: Final = ["messages", "updates", "custom", "checkpoints"]
_NO_TEXT = "The graph has ended without text: readers get that of messages, see docs/langgraph.md."
_INTERRUPTED = "This call was interrupted. It may or may not have taken effect."


def _actions(value: Any) -> list[dict[str, Any]]:
    """Return the tool calls that LangChain's middleware wants to have approved."""
    value = value if isinstance(value, dict) else {}
    return [value] if value.get("type") == "tool_approval" else value.get("action_requests") or []


def _default_answer(interrupt: Any, answered: AnsweredQuestion) -> Any:
    if not (actions := _actions(interrupt.value)):
        is_permission = (interrupt.response_schema or {}).get("type") == "boolean"
        return (not is_permission and (answered.arguments or answered.text)) or answered.approved
    made: dict[str, Any] = {"type": "reject", "message": answered.reason}
    if answered.approved and answered.arguments is None:
        made = {"type": "approve"}
    elif len(actions) == 1 and isinstance(answered.arguments, dict):
        action = {"name": actions[0]["name"], "args": answered.arguments}
        made = {"type": "edit", "edited_action": action}
    return {"decisions": [made] * len(actions)} if "action_requests" in interrupt.value else made


def as_agent(
    graph: Any,
    *,
    input: Callable[[ServiceRequest, list[Any]], Any] = lambda _, messages: {"messages": messages},  # noqa: A002 - LangGraph's name for it
    nodes: Collection[str] | None = None,
    subgraphs: bool = False,
    answer: Callable[[Any, AnsweredQuestion], Any] = _default_answer,
) -> AgentFunction:
    """Return an agent that answers with a compiled graph.

    Args:
        graph: the graph. Its checkpointer must have async methods.
        input: makes the input of the graph from the request and the messages that the graph does
            not have yet; by default `{"messages": messages}`.
        nodes: the nodes whose text is shown; by default all of them. Tool calls and usage are
            shown of every node.
        subgraphs: True streams the messages of nested graphs too.
        answer: makes the value that `interrupt()` returns, from the `Interrupt` and the answer of
            the user; see the documentation for the default.

    Raises:
        ArgumentError: `graph` is not a compiled graph.
        ImportError: LangGraph is not installed.
    """
    if not isinstance(graph, imported("langgraph.pregel", "langgraph").Pregel):
        raise ArgumentError("graph", "must be a graph of LangGraph: call its compile()", graph)

    @refusing
    async def run_graph(request: ServiceRequest, stream: AgentStream) -> None:
        await _GraphTurn(graph, input, subgraphs, answer, stream, _GraphOutput(stream, nodes)).run()

    run_graph.durable_problem = lambda: (_problem(graph, True) or [""])[-1]  # type: ignore[attr-defined]
    return named(run_graph, graph)


@dataclass
class _GraphTurn:
    """One request: the graph runs to its end, or to an interrupt.

    `position` is the last checkpoint that the journal has. `answered` and `given`, the input, are
    for the first superstep.
    """

    graph: Any
    make_input: Callable[..., Any]
    subgraphs: bool
    make_answer: Callable[..., Any]
    stream: AgentStream
    output: "_GraphOutput"
    config: dict[str, Any] = field(default_factory=dict)
    answered: Any = None
    position: str | None = None
    given: Any = None
    events: Any = None

    async def run(self) -> None:
        """Answer the request."""
        stream, saver = self.stream, self.graph.checkpointer
        if problem := _problem(self.graph, stream.durable):
            await stream.fail(*problem)
            return
        # The history of a request that brings it may have been edited, so its thread is its own.
        once = isinstance(stream.request, RequestWithHistory)
        # The principal is one of this agent.
        name = [stream._writer.turns.principal, "", stream.request.context.session_id]
        usual = f"once-{stream.stream_id}" if once else sha256(to_json(name)).hexdigest()[:32]
        self.answered = await self.output.answered()
        thread = self.answered.state["thread"] if self.answered else usual
        self.config = {"configurable": {"thread_id": thread}}
        self.position = await stream.step("begin", self._begin)
        if self.answered is None:
            self.given = self.make_input(self.stream.request, await self._messages())
        try:
            goes_on, asked = True, None
            while goes_on:
                end = await stream.step("graph", self._superstep, on_restart="resume")
                self.position, goes_on, asked, self.output.has_text = end
                self.answered = self.given = None
        finally:
            if self.events is not None:
                await self.events.aclose()
            if saver and goes_on:
                # After a cancel LangGraph writes once more, and does not wait for it. If the saver
                # is closed meanwhile, SQLite's file may stay locked. A read comes after the write.
                with suppress(Exception):
                    await self.graph.aget_state(self.config)
        if not (asked or self.output.has_text):
            logger.warning(_NO_TEXT, extra={"event": "graph_without_text"})
        if asked:
            await self.output.ask_text(*asked)
        elif saver and thread.startswith("once-"):
            with suppress(NotImplementedError):  # no request continues this thread
                await saver.adelete_thread(thread)

    async def _begin(self) -> str | None:
        saved = self.graph.checkpointer and await self.graph.aget_state(self.config)
        return saved.config["configurable"].get("checkpoint_id") if saved else None

    async def _messages(self) -> list[Any]:
        """Return the messages that the thread does not have."""
        results = list[Any]()
        if self.position is None:
            sent = await whole_conversation(self.stream, 50, max_chars=1_000_000)
        else:
            new = conversation(new_messages(self.stream.request), (), None, 0)
            sent = [one for one in new if one["role"] != "system"]
            at = {"configurable": self.config["configurable"] | {"checkpoint_id": self.position}}
            results = self.output.missing_results(await self.graph.aget_state(at))
        for call in (call for message in sent for call in message.get("tool_calls", ())):
            call["args"] = call.pop("arguments")
        return [*results, *self.output.kinds.convert_to_messages(sent)]

    async def _superstep(self) -> tuple[str | None, bool, Any, bool]:
        """Run the graph to its next checkpoint.

        Return the checkpoint, whether the graph goes on, the question of an interrupt, and whether
        readers have text.
        """
        if self.events is None and (end := await self._open()) is not None:
            return end
        position, asks, asked = self.position, False, None
        async for event in self.events:
            namespace, mode, data = event if self.subgraphs else ((), *event)
            if mode == "messages":
                await self.output.message(data[0], data[1].get("langgraph_node"))
            elif mode == "custom":
                await write_item(self.stream, _item(data))
                self.output.has_text |= isinstance(data, str)
            elif mode == "updates":
                # With this mark, the node had ended in an earlier run.
                await self.output.update(data, kept=data.get("__metadata__", {}).get("cached"))
                await self.stream.checkpoint(None)  # so the log has it all
                asks |= not namespace and "__interrupt__" in data
            elif not namespace and data["metadata"]["source"] == "loop":
                position = data["config"]["configurable"]["checkpoint_id"]
                if data["next"] and position != self.position:
                    return position, True, None, self.output.has_text
        if asks and not self.graph.checkpointer:
            await self.stream.fail("checkpointer_missing", "To ask, a graph needs a checkpointer.")
        elif asks:
            # Of nodes that ran at the same time, the first one of the graph asks.
            [first, *_] = (await self.graph.aget_state(self.config)).interrupts
            asked = self.output.question(first, self.config["configurable"]["thread_id"])
        return position, False, asked, self.output.has_text

    async def _open(self) -> tuple[str | None, bool, Any, bool] | None:
        """Start the graph; return the end of a superstep that an earlier run has completed."""
        graph, resumed, given, config = self.graph, self.stream.resumed, self.given, self.config
        if graph.checkpointer:
            state = await graph.aget_state(config)
            # By its id, a checkpoint has no messages of nodes that ended after it.
            values = (await graph.aget_state(state.config)).values
            self.output.know(values, (self.answered and self.answered.state.get("ended")) or ())
            for interrupt in state.interrupts if self.answered else ():
                if interrupt.id == self.answered.state["interrupt"]:
                    value = {interrupt.id: self.make_answer(interrupt, self.answered)}
                    given = imported("langgraph.types", "langgraph").Command(resume=value)
            if self.answered and given is None and resumed is None:
                await self.stream.fail("question_not_open", "The graph no longer waits for this.")
                return self.position, False, None, True
            if resumed is not None:
                found = state.config["configurable"].get("checkpoint_id")
                if found != self.position and state.metadata["source"] == "loop":
                    return found, bool(state.next), None, self.output.has_text or bool(resumed.text)
                given = given if found == self.position else None
                # A node that was cancelled while it ended has saved only some of its writes. By
                # the id of the checkpoint, LangGraph does not use them.
                partly = any(task.error and task.result is not None for task in state.tasks)
                if partly and (given is None or self.answered):
                    given, config = None, state.config
                self.output.pieces = [text for op, text in resumed.packets if op == "DELTA"]
                self.stream.start_over()
                await self._write_nested(state)
        start = partial(graph.astream, given, config, stream_mode=_MODES, subgraphs=self.subgraphs)
        self.events = start(durability="sync") if graph.checkpointer else start()
        return None

    async def _write_nested(self, state: Any) -> None:
        """Write what nodes of nested graphs have written that ended: they are not run again."""
        for task in (one for one in state.tasks if one.state and self.subgraphs):
            # The oldest state is the input.
            for one in reversed([s async for s in self.graph.aget_state_history(task.state)][:-1]):
                await self._write_nested(one)
                await self.output.update({node.name: node.result for node in one.tasks}, kept=True)


def _problem(graph: Any, durable: bool) -> tuple[str, str] | None:
    """Return the code and the message of the error if the graph cannot be served."""
    if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
        return "breakpoints_refused", "Breakpoints are refused: call interrupt() in a node."
    found = type(graph.checkpointer).__name__ if graph.checkpointer else "none"
    if durable and found in ("none", "InMemorySaver"):
        needed = "a checkpointer that survives a restart, such as AsyncSqliteSaver"
        return "checkpointer_missing", f"A durable graph needs {needed}, and this one has {found}."
    return None


def _item(data: Any) -> Any:
    """Return the text or the event for what a node has given to its stream writer."""
    is_item = isinstance(data, str) or (isinstance(data, dict) and {"type", "data"} <= data.keys())
    return data if is_item else {"type": "CUSTOM", "data": shown(data)}


class _GraphOutput(TurnOutput):
    """Writes what a graph streams, each message once."""

    def __init__(self, stream: AgentStream, nodes: Collection[str] | None) -> None:
        super().__init__(stream, limit=MAX_PIECE)
        self.kinds = imported("langchain_core.messages", "langgraph")
        self._nodes = nodes
        self._known: set[str] = set()  # messages of nodes that have ended
        self._shown: set[Any] = set()  # messages that have text
        self._calls: dict[str, Any] = {}  # names and arguments of the calls without a result
        self._used: Any = None

    def know(self, values: Any, ended: Collection[str] = ()) -> None:
        """Record the messages that the thread has, and the ids of those that it will have."""
        for message in self._messages_in(values):
            self._add(message)
        self._saved = set(self._known)
        self._known |= set(ended)

    def missing_results(self, state: Any) -> list[Any]:
        """Return results for calls of the last answer: models reject a call without one.

        LangGraph has kept those of nodes that ended, but new input makes it drop them.
        """
        messages = state.values.get("messages") if isinstance(state.values, dict) else ()
        self.know(messages)
        last = [one for one in self._messages_in(messages) if one.type == "ai"][-1:]
        calls = [call for one in last for call in one.tool_calls if call["id"] in self._calls]
        ended = self._messages_in([task.result for task in state.tasks])
        kept = {one.tool_call_id: one for one in ended if one.type == "tool"}
        new = partial(self.kinds.ToolMessage, _INTERRUPTED, status="error")
        return [kept.get(c["id"]) or new(tool_call_id=c["id"], name=c["name"]) for c in calls]

    def question(self, interrupt: Any, thread: str) -> tuple[str, str | None, dict[str, Any]]:
        """Return the question of an interrupt, the tool call that waits for it, and its state.

        The state has the ids of messages that LangGraph sends again when it gets the answer.
        """
        value, call_id = interrupt.value, None
        if actions := _actions(value):
            ids = [None, *(i for i, c in self._calls.items() if c.items() <= actions[0].items())]
            call_id = (actions[0].get("tool_call_id") or ids[-1]) if len(actions) == 1 else None
            lines = (one.get("description") or f"May I call {one['name']}?" for one in actions)
            value = PARAGRAPH.join(lines)
        elif isinstance(value, dict):
            value = value.get("question") or value.get("message") or value
        state = {"thread": thread, "interrupt": interrupt.id, "ended": [*self._known - self._saved]}
        return as_text(value), call_id, state

    async def update(self, data: dict[str, Any], *, kept: bool) -> None:
        """Write the tool calls, results and usage of nodes that have ended.

        If LangGraph has `kept` them, and does not run the nodes again, write their text too.
        """
        for node, made in data.items():  # and the interrupts, which have no messages
            found = [one for one in self._messages_in(made) if one.id not in self._known]
            for message in found if kept else ():
                await self.message(message, node)
            await self.reasoning.flush()
            if (used := self._used) is not None:
                self._used = None
                details = used.get("input_token_details", {}) | used.get("output_token_details", {})
                kinds = [details.get(k, 0) for k in ("cache_read", "cache_creation", "reasoning")]
                await self.usage(used["input_tokens"], used["output_tokens"], *kinds)
            for message in found:
                for call in self._add(message):
                    await self.call(call["name"], call["args"], call["id"])
                if isinstance(message, self.kinds.ToolMessage):
                    about = message.name, message.content, message.tool_call_id
                    await self.result(*about, message.status == "error")
            value = isinstance(made, dict) and made.get("structured_response")
            if value and found and found[-1].type == "tool":  # no message has it as text
                await self.message(self.kinds.AIMessage(as_text(value)), node)

    def _add(self, message: Any) -> list[Any]:
        """Record a message of a node that has ended; return its tool calls."""
        self._known |= {message.id} - {None}
        self._calls.pop(getattr(message, "tool_call_id", ""), None)
        calls = getattr(message, "tool_calls", [])
        self._calls |= {call["id"]: {"name": call["name"], "args": call["args"]} for call in calls}
        return calls

    async def message(self, message: Any, node: Any) -> None:
        """Write a piece of a model's message, or a whole one that was not streamed."""
        if not isinstance(message, self.kinds.AIMessage) or message.id in self._known:
            return
        if message.usage_metadata:
            self._used = self.kinds.ai.add_usage(self._used, message.usage_metadata)
        if self._nodes is not None and node not in self._nodes:
            return
        # LangChain makes the blocks each time, which is slow, and most pieces are only text.
        may_reason = not isinstance(message.content, str) or message.additional_kwargs
        blocks = message.content_blocks if may_reason else ()
        await self.reasoning.add("".join(one.get("reasoning") or "" for one in blocks))
        if message.text and message.id not in self._shown - {None}:
            self._shown.add(message.id)
            self.begin()
        await self.write(str(message.text))

    def _messages_in(self, value: Any, depth: int = 4) -> Iterator[Any]:
        if isinstance(value, self.kinds.BaseMessage):
            yield value
        elif depth and isinstance(value, dict | list | tuple):
            for inner in value.values() if isinstance(value, dict) else value:
                yield from self._messages_in(inner, depth - 1)
