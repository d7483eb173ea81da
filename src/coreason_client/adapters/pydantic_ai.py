"""An agent of pydantic-ai as an agent of the server kit; tested with pydantic-ai-slim 2.66.0.

Readers receive:

* The text of the model as DELTA packets, in the pieces that the model sends. If the output of the
  agent is not the text of the model as it is (another type, a function or an output validator makes
  it), it is written once, at the end: text as text, anything else as JSON.
* Its reasoning as THOUGHT_TRACE events, one for each paragraph.
* TOOL_CALL and TOOL_RESULT events for tools, and a USAGE event at the end of the run.
* A question for each tool call that needs an approval, one after the other. The messages so far are
  the state of the question, so the run goes on where it was.

In a durable application each request to the model is a step, and so is each tool call: they go
through the interface of pydantic-ai for durable execution, and tools run one after the other.
"""

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from coreason_manifest.definitions.message import BlobPart, MessagePart, Role, TextPart, UriPart
from coreason_manifest.definitions.service import ServiceRequest

from ..agents._output import PARAGRAPH, TurnOutput, as_text
from ..agents._prompt import UnreadableError, earlier_turns, is_image, refusing, system_prompts
from ..server import AgentStream, AnsweredQuestion
from . import AgentFunction, imported, named

__all__ = ["as_agent"]

_ROLES = ("model", "event", "capability", "tool")  # of what is a step


def _import(name: str) -> Any:
    return imported(f"pydantic_ai.{name}", "pydantic-ai-slim")


def as_agent(
    obj: Any,
    *,
    deps: Any = None,
    history_turns: int = 50,
    thoughts: bool = True,
    on_restart: Literal["rerun", "fail"] = "rerun",
    **run_options: Any,
) -> AgentFunction:
    """Return an agent of pydantic-ai as an agent for `AgentApp`.

    Args:
        obj: the agent; it is not changed.
        deps: its dependencies, or a function of the request and the stream that returns them.
        history_turns: the number of earlier turns that the model gets.
        thoughts: False to keep the reasoning of the model from readers.
        on_restart: what happens to a tool call that a restart has interrupted: "rerun" or "fail",
            see `AgentStream.step`. The metadata of a tool can say it too: `{"on_restart": "fail"}`.
        run_options: further arguments of the agent's method `run`, such as `usage_limits`.

    Raises:
        ImportError: pydantic-ai is not installed.
    """
    requests = _import("tools").DeferredToolRequests
    outputs = obj.output_type if isinstance(obj.output_type, list | tuple) else [obj.output_type]
    is_validated = getattr(getattr(obj, "wrapped", obj), "_output_validators", None)
    streams_text = not is_validated and any(map(_is_text, outputs))
    if not is_validated and requests not in outputs:  # with a validator it refuses another type
        run_options.setdefault("output_type", [*outputs, requests])

    make_run: Any = partial(_Run, obj, streams_text, on_restart)

    @refusing
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        run = make_run(stream, TurnOutput(stream, thoughts=thoughts))
        answered = await run.output.answered()
        given = await (run.answers(answered) if answered else run.conversation(history_turns))
        if given is not None:
            given["deps"] = deps(request, stream) if callable(deps) else deps
            known = _import("capabilities")
            added = [known.ReinjectSystemPrompt(), known.ProcessEventStream(run.process)]
            added += [_durability()(run)] if stream.durable else []
            given["capabilities"] = [*run_options.get("capabilities", ()), *added]
            systems = system_prompts(request.payload.messages or ())
            asked = {"instructions": PARAGRAPH.join(systems)} if systems else {}
            options = {**run_options, **asked, **given, "run_id": str(stream.stream_id)}
            await run.finish(await obj.run(infer_name=False, **options))

    # `AgentApp` calls it if it is durable, so that nobody finds out in the first request.
    agent.durable_problem = lambda: _durable_problem(make_run(None, None))  # type: ignore[attr-defined]
    return named(agent, obj)


def _is_text(output_type: Any) -> bool:
    """Return True if the text of the model can be the output, unchanged."""
    is_union = get_origin(output_type) in (Union, UnionType)
    return output_type is str or (is_union and str in get_args(output_type))


@dataclass
class _Run:
    """One run of the agent: reads its input, and writes its events to the stream."""

    agent: Any
    streams_text: bool
    on_restart: str
    stream: AgentStream
    output: TurnOutput

    async def conversation(self, limit: int) -> dict[str, Any]:
        """Return the question and the earlier messages."""
        requested = self.stream.request.payload.messages or []
        turns = await earlier_turns(self.stream.request, self.stream, limit)
        kinds, history, asked = _import("messages"), list[Any](), list[Any]()
        for message in [*(one for turn in turns for one in turn.messages), *requested]:
            if message.role is Role.USER:
                asked += map(_part, message.parts)
            elif message.role is Role.ASSISTANT and message.text:
                if asked:
                    history.append(kinds.ModelRequest([kinds.UserPromptPart(_prompt(asked))]))
                history.append(kinds.ModelResponse([kinds.TextPart(message.text)]))
                asked = []
        if not asked:
            raise UnreadableError("The request has no question.")
        return {"user_prompt": _prompt(asked), "message_history": history}

    async def answers(self, answered: AnsweredQuestion) -> dict[str, Any] | None:
        """Return the messages and all approvals; None if another call needs one first."""
        state, tools = answered.state, _import("tools")
        pending: list[tuple[str, Any, str]] = state["pending"][1:]
        answer: Any = ["ToolDenied", {"message": answered.reason} if answered.reason else {}]
        if answered.approved and isinstance(answered.arguments, dict | None):
            answer = ["ToolApproved", {"override_args": answered.arguments}]
        answers = {**state["answers"], answered.call_id: answer}
        if pending:
            await self.output.call(*pending[0])
            await self.output.ask(*pending[0], {**state, "pending": pending, "answers": answers})
            return None
        approvals = {key: getattr(tools, kind)(**given) for key, (kind, given) in answers.items()}
        history = _import("messages").ModelMessagesTypeAdapter.validate_python(state["messages"])
        results = tools.DeferredToolResults(approvals=approvals)
        return {"message_history": history, "deferred_tool_results": results}

    async def process(self, context: Any, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Write the events of a request to the model, or of tools.

        Of a durable agent, those of the model come a second time: `write_answer` wrote them.
        """
        async for event in events if self.stream.durable else self._written(events):
            self.output.has_text |= self.streams_text and bool(_piece(event, "text"))
            if event.event_kind in ("function_tool_call", "function_tool_result"):
                await self._show(event.part)
            yield event

    async def write_answer(self, context: Any, events: AsyncIterator[Any]) -> None:
        """Write one answer of the model, in its step."""
        async for _ in self._written(events):
            pass

    async def _written(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Write the text and the reasoning of one answer of the model; yield its events."""
        kind = ""
        async for event in events:
            if event.event_kind == "part_start":
                before, kind = kind, event.part.part_kind
                if kind == "text" != before:  # pydantic-ai itself joins texts so
                    self.output.begin()
                if kind == "builtin-tool-return":  # of a tool that the provider executes
                    await self._show(event.part)
            elif event.event_kind == "part_end" and event.part.part_kind == "builtin-tool-call":
                await self._show(event.part)
            await self.output.reasoning.add(_piece(event, "thinking"))
            if self.streams_text:
                await self.output.write(_piece(event, "text"))
            yield event
        await self.output.reasoning.flush()

    async def _show(self, part: Any) -> None:
        """Report a call of a tool, or its result."""
        name, call_id = part.tool_name, part.tool_call_id
        if isinstance(part, _import("messages").BaseToolCallPart):
            await self.output.call(name, part.args_as_dict(), call_id)
        else:
            await self.output.result(name, part.content, call_id, part.outcome != "success")

    async def finish(self, result: Any) -> None:
        """Write the output as far as readers do not have it, the usage, and a question."""
        output, used, response = result.output, result.usage, result.response
        asks = isinstance(output, _import("tools").DeferredToolRequests)
        if not (asks or (self.streams_text and output == response.text)):
            self.output.begin()
            await self.output.write(as_text(output))
        counts = used.input_tokens, used.output_tokens, used.cache_read_tokens
        others = used.cache_write_tokens, used.details.get("reasoning_tokens", 0)
        cost = None if used.cost is None else float(used.cost)
        about = {"model": response.model_name or None, "finish_reason": response.finish_reason}
        await self.output.usage(*counts, *others, cost_estimate=cost, turns=used.requests, **about)
        if asks and output.calls:
            await self.stream.fail("external_tool", f"Nobody executes {output.calls[0].tool_name}.")
        elif asks:
            pending = [(c.tool_name, c.args_as_dict(), c.tool_call_id) for c in output.approvals]
            messages = json.loads(result.all_messages_json())
            state = {"messages": messages, "pending": pending, "answers": {}}
            await self.output.ask(*pending[0], state)


# Values of pydantic-ai


def _part(part: MessagePart) -> Any:
    """Return a part of a question; one that the model cannot read becomes text that says so."""
    kinds = _import("messages")
    if isinstance(part, TextPart):
        return part.content
    if isinstance(part, UriPart):
        return kinds.ImageUrl(part.uri) if is_image(part) else part.uri
    if isinstance(part, BlobPart) and part.mime_type:
        with suppress(ValueError):
            data = b64decode(part.content, validate=True)
            return kinds.BinaryContent(data, media_type=part.mime_type)
    return f"[A part of type {part.type} that cannot be read.]"


def _prompt(content: list[Any]) -> Any:
    """Return text as a string, as pydantic-ai itself stores it."""
    return content[0] if len(content) == 1 and isinstance(content[0], str) else content


def _piece(event: Any, kind: str) -> str:
    """Return the text or the reasoning that an event adds."""
    if event.event_kind == "part_start" and event.part.part_kind == kind:
        return event.part.content or ""
    is_delta = event.event_kind == "part_delta" and event.delta.part_delta_kind == kind
    return event.delta.content_delta or "" if is_delta else ""


# Durable execution


@cache
def _durability() -> Any:
    """Return the class that makes steps of what pydantic-ai calls units."""
    durable = _import("durable_exec")

    class Backend(durable.JournalCallableOperationBackend):  # type: ignore[misc,name-defined]
        run: _Run
        steps = 0

        def config_for_tool(self, operation: Any, *, tool: Any, tool_name: str) -> Any:
            if tool is None or not isinstance(operation.operation_id, durable.ToolsetCallToolId):
                return "rerun"
            return (tool.tool_def.metadata or {}).get("on_restart", self.run.on_restart)

        async def execute(self, *, name: str, body: Any, config: Any, **about: Any) -> Any:
            if isinstance(about["operation_id"], durable.EventStreamHandlerId):
                return None  # an event of a tool, which the run gets anyway
            self.steps += 1  # they run in several tasks, but one after the other
            name = name.translate(str.maketrans("/#@", "___"))[:200]
            return await self.run.stream.step(name, body, on_restart=config, key=str(self.steps))

    class Durability(durable.BaseDurabilityCapability):  # type: ignore[misc,name-defined]
        in_durable_context = True
        engine_spec = durable.DurabilityEngineSpec(
            engine_name="a durable agent",
            durable_unit_noun="step",
            durable_container_noun="stream",
            codec=durable.JSON_CODEC,
            sequential_tools_in_durable_context=True,
        )

        def __init__(self, run: _Run) -> None:
            super().__init__(event_stream_handler=run.write_answer, name=run.agent.name or "agent")
            config = durable.RoleBasedOperationConfig(**dict.fromkeys(_ROLES, "rerun"))
            self._backend = Backend(agent_name=self.name, config=config)
            self._backend.run = run

        def get_durable_operation_backend(self) -> Any:
            return self._backend

    return Durability


def _durable_problem(run: _Run) -> str:
    """Return why the model or the toolsets of an agent cannot be used in steps, "" if they can."""
    try:
        _durability()(run).for_agent(run.agent)
    except _import("exceptions").UserError as error:
        return str(error)
    return ""
