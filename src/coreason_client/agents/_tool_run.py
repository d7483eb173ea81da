"""The run of an agent whose model calls tools: answers, calls and results on one stream.

Each answer of the model is a step that resumes, and each call is a step: a restarted agent neither
asks the model again for an answer that was complete, nor executes a call again that had ended.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import uuid4

from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import StreamOpCode

from ..llm import AsyncLLMClient, Message, ToolCallFinished, ToolCallStarted, Usage
from ..llm._answer import NO_USAGE, add_usages
from ..llm.tools._given_tools import GivenTools
from ..llm.tools._output import bounded
from ..llm.tools._run_machine import AskModel, RunLimits, RunMachine
from ..llm.tools._steps_async import AsyncCalls

if TYPE_CHECKING:
    from ..llm.tools._perform import AsyncModelClient
    from ..server import AgentStream

__all__ = ["TOOL_CALL", "TOOL_RESULT", "AnswerFailed", "ToolRun", "event"]

TOOL_CALL = "TOOL_CALL"
"""The type of the event for a tool call that begins."""

TOOL_RESULT = "TOOL_RESULT"
"""The type of the event for the result of a tool call."""

_MAX_SHOWN = 4_000  # characters of a result that readers get
_PARAGRAPH = "\n\n"
_Tools: TypeAlias = Sequence[Mapping[str, Any]]  # as the model sees them


class AnswerFailed(Exception):
    """The step of an answer ended with an error; `error` is the one for readers.

    `usage` is that of the answers before it.
    """

    def __init__(self, error: dict[str, Any], usage: Usage) -> None:
        super().__init__(error["code"])
        self.error = error
        self.usage = usage

    def with_usage(self) -> dict[str, Any]:
        """Return the error with the usage of all answers in its details."""
        details = self.error["details"] or {}
        usage = add_usages([self.usage, details.get("usage", NO_USAGE)])
        return {**self.error, "details": {**details, "usage": usage}}


class ToolRun:
    """Runs a model with tools and writes what happens to a stream.

    `write_answer` writes one answer to messages, with tools as the model sees them, and returns the
    response, or the error for readers, for the journal.
    """

    def __init__(
        self,
        stream: "AgentStream",
        tools: GivenTools,
        limits: RunLimits,
        client: AsyncLLMClient,
        *,
        show_calls: bool,
    ) -> None:
        self._stream = stream
        self._tools = tools
        self._limits = limits
        self._client = client
        self._show_calls = show_calls
        self._needs_paragraph = False

    async def run(
        self,
        messages: list[Message],
        write_answer: Callable[[list[Message], _Tools], Awaitable[dict[str, Any]]],
    ) -> RunMachine:
        """Run until there is an answer, and return the machine with the result.

        Raises:
            AnswerFailed: the model gave no answer.
            LLMError: a limit is reached, a tool ended the run, or a server cannot be opened.
        """
        machine = RunMachine(messages, self._limits)
        async with self._tools.open_async() as toolset:
            parallel = self._limits.max_parallel_calls
            client = cast("AsyncModelClient", self._client)
            calls = AsyncCalls(toolset, parallel, client, stream=self._stream)
            while (step := machine.next_step()) is not None:
                if isinstance(step, AskModel):
                    ended = await self._answer(step, toolset.definitions, write_answer)
                    if "error" in ended:
                        raise AnswerFailed(ended["error"], machine.usage)
                    machine.record_answer(ended["response"])
                    self._needs_paragraph = bool(ended["response"]["data"]["content"])
                else:
                    async with aclosing(calls.events(step, machine)) as events:
                        async for happened in events:
                            await self._show(happened)
        return machine

    async def _answer(
        self, step: AskModel, tools: _Tools, write_answer: Callable[..., Any]
    ) -> dict[str, Any]:
        if self._needs_paragraph:  # or the text of two answers would run together
            self._needs_paragraph = False
            await self._stream.write(_PARAGRAPH)

        async def answer() -> dict[str, Any]:
            ended: dict[str, Any] = await write_answer(step.messages, tools)
            return ended

        return await self._stream.step("answer", answer, on_restart="resume")

    async def _show(self, happened: ToolCallStarted | ToolCallFinished) -> None:
        if not self._show_calls:
            return
        data: dict[str, Any] = {
            "turn": happened.turn,
            "call_id": happened.id,
            "name": happened.name,
        }
        if isinstance(happened, ToolCallStarted):
            data["arguments"] = happened.arguments
            await self._stream.write_packet(StreamOpCode.EVENT, event(TOOL_CALL, data))
            return
        data["result"] = bounded(happened.result, _MAX_SHOWN)
        data["is_error"] = happened.is_error
        data["seconds"] = happened.seconds
        await self._stream.write_packet(StreamOpCode.EVENT, event(TOOL_RESULT, data))


def event(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return a plain event with the keys of a presentation event."""
    return {"id": str(uuid4()), "timestamp": utc_now().isoformat(), "type": kind, "data": data}
