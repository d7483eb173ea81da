"""An agent of the OpenAI Agents SDK as an agent for `AgentApp`.

Tested with openai-agents 0.24.0 and openai 3.51.0. The package is imported when `as_agent` is
called.

Readers receive:

* The text of the model as DELTA packets, in the pieces that the model sends; a blank line separates
  two answers of one turn.
* The reasoning of the model as THOUGHT_TRACE events.
* An EVENT of type TOOL_CALL for each call, and one of type TOOL_RESULT for its result. Results
  follow when all calls of an answer have ended. Tools that the provider runs are reported too.
* A PROGRESS_INDICATOR for each handoff.
* An EVENT of type USAGE for each answer of the model.
* A question, if a tool needs an approval. The state of the run is stored with it, in the log.

All of this is written where the model is called, and not where the events of the run are read: the
packets then have the same order in every run. In a durable application each answer of the model is
a step, which owns its packets, and so is each call of a function tool. Agents, tools and handoffs
are copied for each request; the objects of the user are not changed.
"""

import inspect
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from hashlib import sha256
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from coreason_manifest.definitions.service import ServiceRequest

from ..agents._output import PARAGRAPH, TurnOutput, as_text
from ..agents._prompt import refusing, whole_conversation
from ..errors import ArgumentError
from ..llm._reply import dump_tokens
from ..llm.providers._responses_items import message_text, named_call, reasoning_text, texts_of
from ..llm.providers._responses_reader import tokens_of
from ..llm.providers.responses import input_content
from ..server import AgentStream
from . import AgentFunction, imported, named

__all__ = ["as_agent"]

_in_tool: ContextVar[bool] = ContextVar("in_tool", default=False)


def as_agent(
    agent: Any,
    *,
    run_config: Any = None,
    max_turns: int | None = 10,
    context: Callable[[AgentStream], Any] | None = None,
    history_turns: int = 20,
    once: Collection[str] = (),
) -> AgentFunction:
    """Return an agent for `AgentApp` that runs an `Agent` of the OpenAI Agents SDK.

    Args:
        agent: the agent that each run starts with.
        run_config: the `RunConfig` of each run.
        max_turns: the maximum number of answers of the model for one request, None for no limit.
        context: a function that makes the context of a run from the stream. It is called again
            when a question is answered, so the context itself is not stored.
        history_turns: the maximum number of earlier turns that the model gets.
        once: the names of tools that must not run twice: if a process dies during such a call, the
            stream of a durable agent ends with `step_uncertain`.

    Raises:
        ImportError: the package openai-agents is not installed.
        ArgumentError: `agent` is not an agent of the SDK.
    """
    imported("agents.run_state", "openai-agents")  # another package may have the name `agents`
    sdk = imported("agents", "openai-agents")
    if not isinstance(agent, sdk.Agent):
        raise ArgumentError("agent", "must be an Agent of the OpenAI Agents SDK", agent)

    @refusing
    async def answer(request: ServiceRequest, stream: AgentStream) -> None:
        run = _SDKRun(sdk, stream, once, context and context(stream), TurnOutput(stream))
        made, config = run.agent(agent), run.run_config(run_config or sdk.RunConfig())
        options = {"max_turns": max_turns, "context": run.context, "run_config": config}
        try:
            result = sdk.Runner.run_streamed(made, await run.input(made, history_turns), **options)
            async for _ in result.stream_events():
                pass  # the copies of the models have written what readers get
            await run.end(result)
        except sdk.MaxTurnsExceeded:
            await stream.fail("max_turns", "The agent has used all its turns without an answer.")
        except sdk.InputGuardrailTripwireTriggered:
            await stream.fail("guardrail", "A guardrail has refused the request.")
        except sdk.OutputGuardrailTripwireTriggered:
            await stream.fail("guardrail", "A guardrail has refused the answer.")

    return named(answer, agent)


@dataclass
class _SDKRun:
    """One run of the agent, for one request, with copies of the objects of the user.

    The models and tools of the copies report to the run.
    """

    sdk: Any
    stream: AgentStream
    once: Collection[str]
    context: Any
    output: TurnOutput
    # The names and arguments of calls without a result.
    calls: dict[str, tuple[str, Any]] = field(default_factory=dict)
    rejected: str | None = None
    answers: int = 0
    # Copies of agents by the ids of the originals, which are kept so that no other object gets one.
    agents: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    async def input(self, agent: Any, history_turns: int) -> Any:
        """Return the items of the conversation, or the stored run with the user's decision."""
        if (asked := await self.output.answered()) is None:
            messages = await whole_conversation(self.stream, history_turns, max_chars=50_000)
            said = [one for one in messages if one["content"] and one["role"] != "tool"]
            return [{"role": one["role"], "content": input_content(one["content"])} for one in said]
        make = partial(self.sdk.RunState.from_json, context_override=self.context)
        state = await make(agent, asked.state["run"])
        self.calls = asked.state["calls"]
        for call_id, call in self.calls.items():
            await self.output.call(*call, call_id)
        # Two runs of an agent that is a tool may have made calls with the same id.
        item, *_ = (one for one in state.get_interruptions() if one.call_id == asked.call_id)
        if asked.approved and asked.arguments is None:
            state.approve(item)
            return state
        # The SDK cannot change a call, so the model must make another one.
        wanted = f"Not called. The user wants other arguments: {as_text(asked.arguments)}"
        state.reject(item, rejection_message=wanted if asked.approved else asked.reason or None)
        self.rejected = asked.call_id
        return state

    async def end(self, result: Any) -> None:
        """Write what is missing after a run, and ask if a call needs an approval."""
        outputs = [item for item in result.new_items if item.type == "tool_call_output_item"]
        for ended in self._results(item.to_input_item() for item in outputs):
            await self.output.result(*ended)
        if result.interruptions:
            # The next run asks for the approval of another call.
            item, state = result.interruptions[0], result.to_state().to_json()
            if item.call_id not in self.calls:  # an agent that is a tool has made it
                self.calls[item.call_id] = item.name, item.arguments
                await self.output.call(item.name, item.arguments, item.call_id)
            state["context"]["context"] = None  # it may have secrets, and is made again
            stored = {"run": state, "calls": self.calls}
            await self.output.ask(item.name, item.arguments or "{}", item.call_id, stored)
        elif outputs and result.new_items[-1] is outputs[-1] and result.final_output is not None:
            # A tool has ended the run, so no model has written the answer.
            await self.output.write(as_text(result.final_output))

    def _results(self, items: Iterable[Any]) -> list[tuple[str, Any, str, bool]]:
        """Return what readers get of the results of calls that had none."""
        return [
            (self.calls.pop(id_)[0], item.get("output"), id_, id_ == self.rejected)
            for item in items
            if (id_ := item.get("call_id")) in self.calls and item["type"].endswith("_output")
        ]

    # The copies, and what they call.

    def run_config(self, config: Any) -> Any:
        """Return a run configuration whose models report."""
        get_model = config.model_provider.get_model
        provider = _copy(config.model_provider, get_model=lambda name: self._model(get_model(name)))
        return replace(config, model=self._model(config.model), model_provider=provider)

    def _model(self, model: Any) -> Any:
        """Return a model that reports; the name of a model is left as it is."""
        if not isinstance(model, self.sdk.Model):
            return model
        names = ("close", "get_retry_advice", "_cleanup_on_run_end")
        inner = {name: getattr(model, name) for name in names}
        return _copy(model, stream_response=partial(self._model_events, model), **inner)

    def agent(self, agent: Any) -> Any:
        """Return the copy of an agent, and of all agents that it can hand off to."""
        if id(agent) not in self.agents:
            tools = [self._tool(tool) for tool in agent.tools]
            # Without its settings it would get those of the other model.
            model = {"model": self._model(agent.model), "model_settings": agent.model_settings}
            made = agent.clone(tools=tools, handoffs=[], **model)
            made.get_mcp_tools = partial(self._mcp_tools, made.get_mcp_tools)
            # A handoff may lead back to this agent.
            self.agents |= {id(agent): (agent, made), id(made): (made, made)}
            made.handoffs = [self._handoff(handoff) for handoff in agent.handoffs]
        return self.agents[id(agent)][1]

    async def _mcp_tools(self, get_mcp_tools: Any, context: Any) -> list[Any]:
        return [self._tool(tool) for tool in await get_mcp_tools(context)]

    def _handoff(self, handoff: Any) -> Any:
        if not isinstance(handoff, self.sdk.Handoff):
            return self.agent(handoff)

        async def invoke(context: Any, arguments: str) -> Any:
            return self.agent(await handoff.on_invoke_handoff(context, arguments))

        target = handoff._agent_ref and handoff._agent_ref()
        # A stored run finds its agents through this reference.
        found = None if target is None else weakref.ref(self.agent(target))
        return _copy(handoff, on_invoke_handoff=invoke, _agent_ref=found)

    def _tool(self, tool: Any) -> Any:
        """Return a tool whose calls are steps of a durable run."""
        if not isinstance(tool, self.sdk.FunctionTool):
            return tool
        invoke = tool.on_invoke_tool
        is_function = inspect.isroutine(invoke)

        @wraps(invoke if is_function else type(invoke).__call__)
        async def step(*given: Any) -> Any:
            return await self._invoke(tool, partial(invoke, *given[-2:]), given[-2].tool_call_id)

        made: Any = step if is_function else _copy(invoke)
        if not is_function:
            # The SDK asks an object of its own class whether a call needs an approval.
            made.__class__ = type("Step", (type(invoke),), {"__call__": step})
        return _copy(tool, on_invoke_tool=made)

    def _model_events(self, model: Any, *given: Any, **options: Any) -> AsyncIterator[Any]:
        """Return the events of one answer of a model."""
        received = model.stream_response(*given, **options)
        # The run of an agent that is a tool has its own readers.
        return received if _in_tool.get() else self._answer(received, *given)

    async def _answer(self, received: Any, *given: Any) -> AsyncIterator[Any]:
        """Write an answer, and yield its events; a durable run needs only the last one."""
        handoffs = {handoff.tool_name: handoff.agent_name for handoff in given[5]}
        answer = _Answer(self, received, self._results(given[1]), handoffs)
        self.output.begin()
        self.answers += 1
        if self.stream.durable:
            answer.response = await self.stream.step("model", answer.whole, key=str(self.answers))
            if answer.response is not None:  # otherwise the SDK says what is missing
                kinds = imported("openai.types.responses", "openai-agents")
                last = {"type": "response.completed", "response": answer.response}
                yield kinds.ResponseCompletedEvent.model_construct(**last, sequence_number=0)
        else:
            async for event in answer.events():
                yield event
        # An earlier process may have written the answer.
        items = (answer.response or {}).get("output", ())
        self.output.has_text |= bool(texts_of(items)[0])
        for item in items:
            if item.get("call_id") and (call := named_call(item))[0] not in handoffs:
                self.calls[item["call_id"]] = call

    async def _invoke(self, tool: Any, call: Callable[[], Any], call_id: str) -> Any:
        """Call a tool, in a durable run in a step."""

        async def output() -> Any:
            value = await call()
            return _plain(value) if tool.output_json_schema is None else value

        _in_tool.set(True)  # the SDK makes each call in its own task
        if not self.stream.durable:
            return await call()
        # Calls run at the same time, and their ids may have any characters.
        key = sha256(call_id.encode()).hexdigest()[:32]
        policy: Any = "fail" if tool.name in self.once else "rerun"
        return await self.stream.step("tool", output, key=key, on_restart=policy)


@dataclass
class _Answer:
    """Writes one answer of a model: its text, its reasoning, its calls and its usage."""

    run: _SDKRun
    received: AsyncIterator[Any]
    results: list[Any]  # of the calls before it
    handoffs: dict[str, str]
    streamed: bool = False  # the text of the current item was written
    items: dict[int, dict[str, Any]] = field(default_factory=dict)
    response: Any = None  # as JSON

    async def events(self) -> AsyncIterator[Any]:
        """Write the answer, and yield its events."""
        for result in self.results:
            await self.run.output.result(*result)
        async for event in self.received:
            if event.type in ("response.output_text.delta", "response.refusal.delta"):
                await self.run.output.write(event.delta)
                self.streamed = True
            elif event.type == "response.output_item.done":
                await self._show_item(event.output_index, _dump(event.item))
            elif event.type == "response.completed":
                await self._complete(_dump(event.response))
            yield event

    async def whole(self) -> Any:
        """Write the answer, and return it as JSON."""
        async for _ in self.events():
            pass
        return self.response

    async def _complete(self, response: dict[str, Any]) -> None:
        for number, item in enumerate(response["output"]):
            if number not in self.items:  # some models send no events for their items
                await self._show_item(number, item)
        # Some send them only in events. The provider repeats instructions and tools.
        output = [item for _, item in sorted(self.items.items())]
        self.response = {**response, "output": output, "instructions": None, "tools": []}
        if tokens := tokens_of(response):
            await self.run.stream.usage(**dump_tokens(tokens), model=response["model"] or None)

    async def _show_item(self, number: int, item: dict[str, Any]) -> None:
        self.items[number], output = item, self.run.output
        name, arguments = named_call(item)
        if item["type"] == "message" and not self.streamed:
            await output.write(message_text(item)[0])
        elif item["type"] == "reasoning":
            await output.reasoning.add(reasoning_text(item) + PARAGRAPH)
        elif name in self.handoffs:
            await self.run.stream.progress(f"Handoff to {self.handoffs[name]}", status="complete")
        elif item["type"].endswith("_call"):
            call_id = item.get("call_id") or item["id"]
            await output.call(name, arguments, call_id)
            if not item.get("call_id"):  # the provider has run it
                value = item.get("error") or item.get("output") or item["status"]
                await output.result(name, value, call_id, bool(item.get("error")))
        self.streamed = False
        output.begin()


def _copy(original: Any, **attributes: Any) -> Any:
    """Return an object of the same class with other attributes, or methods."""
    made = object.__new__(type(original))
    made.__dict__.update(original.__dict__, **attributes)
    return made


# Values. Pure.


def _dump(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_unset=True, warnings=False)


def _plain(value: Any) -> Any:
    """Return the output of a tool as JSON that the model gets as it would get the output.

    The SDK knows texts, images and files as outputs, and makes text of everything else.
    """
    if isinstance(value, BaseModel) and getattr(value, "type", None) in ("text", "image", "file"):
        return value.model_dump(exclude_none=True)
    if isinstance(value, list | tuple) and any(isinstance(part, BaseModel) for part in value):
        return [_plain(part) for part in value]
    with suppress(ValueError):
        if from_json(to_json(value)) == value:
            return value
    return str(value)
