"""Runs a model with tools: performs the steps of a `RunMachine` and yields the events."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Generic

from .._returned import AsyncStreamBase
from ..errors import LLMError, LLMRequestError, LLMResponseError
from ..observe._work_span import WorkSpan
from ..types import Messages, Parsed, TextDelta
from ._given_tools import given_tools_async
from ._perform import AsyncModelClient
from ._run_machine import AskModel, RunLimits, RunMachine, conversation
from ._steps_async import AsyncCalls, AsyncModelTurns
from .events import RunEvent, RunFinished, RunResult, TurnFinished
from .tool import Toolset


class AsyncRunStream(AsyncStreamBase, Generic[Parsed]):
    """An async iterator of the events of a run; iterating may raise `LLMError`.

    Used as a context manager, it ends the run as soon as it is not needed: the connection to the
    model is closed, and tool calls are cancelled.
    """

    def __init__(
        self, machine: RunMachine, events: AsyncGenerator[RunEvent], *, restarts: bool = False
    ) -> None:
        self._machine = machine
        self._restarts = restarts
        self._events = events
        self._error: LLMError | None = None

    def __aiter__(self) -> AsyncIterator[RunEvent]:
        return self

    async def __anext__(self) -> RunEvent:
        try:
            return await anext(self._events)
        except LLMError as error:
            self._error = error
            raise

    def text(self) -> AsyncGenerator[str]:
        """Yield only the text of the answers, with a blank line between two answers.

        Raises:
            LLMRequestError: an answer may restart, and the texts would run into each other.
        """
        if self._restarts:
            raise LLMRequestError(
                'text() cannot be used with on_break="restart", which may begin an answer again: '
                "read the events, and drop the text before a Restarted"
            )
        return self._texts()

    async def _texts(self) -> AsyncGenerator[str]:
        paragraph = has_text = False
        async for event in self:
            if isinstance(event, TextDelta):
                yield f"\n\n{event.text}" if paragraph else event.text
                paragraph, has_text = False, True
            elif isinstance(event, TurnFinished):
                paragraph = has_text

    async def result(self) -> RunResult[Parsed]:
        """Read the rest and return the result, as `run` would.

        Raises:
            LLMError: the run ended with an error, or was closed before its end.
        """
        if self._error is not None:
            raise self._error
        async for _ in self:
            pass
        if self._machine.result is None:
            raise LLMResponseError("the run was closed before its end")
        return self._machine.result

    async def aclose(self) -> None:
        """End the run and release everything that it uses; may be called twice."""
        await self._events.aclose()


class AsyncRun:
    """One run of a model with tools; `options` are those of `run`.

    Raises:
        LLMRequestError: a message, a tool or a limit is wrong.
    """

    def __init__(
        self,
        client: AsyncModelClient,
        messages: Messages,
        tools: Sequence[Any] | None,
        options: dict[str, Any],
    ) -> None:
        limits = RunLimits.taken_from(options)
        self._given = given_tools_async(tools)
        own, checked = conversation(messages)
        self._machine = RunMachine(
            *(own, limits),
            checked=checked,
            tool_choice=options.get("tool_choice"),
            approvals=options.pop("approvals", None),
        )
        self._turns = AsyncModelTurns(client, options)
        self._restarts = options.get("on_break") == "restart"
        self._parallel = limits.max_parallel_calls
        self._client = client

    def stream(self) -> AsyncRunStream:
        """Return a stream of the events; nothing is sent before it is iterated."""
        # Created here: its parent is the span that is current where `run_stream` is called.
        span = self._client._observation.run()
        return AsyncRunStream(self._machine, self._events(span), restarts=self._restarts)

    async def result(self) -> RunResult:
        """Run to the end and return the result, without events.

        Raises:
            LLMError: the run ended with an error.
        """
        with self._client._observation.run() as span, span.current():
            try:
                if self._given.toolset is not None:
                    return await self._complete(self._given.toolset)
                async with self._given.open_async() as toolset:
                    return await self._complete(toolset)
            except LLMError as error:
                raise self._machine.ended_by(error) from error.__cause__

    async def _complete(self, toolset: Toolset) -> RunResult:
        machine, turns = self._machine, self._turns
        calls = AsyncCalls(toolset, self._parallel, self._client)
        while (step := machine.next_step()) is not None:
            if isinstance(step, AskModel):
                machine.record_answer(await turns.complete(step, machine, toolset.definitions))
            else:
                await calls.complete(step, machine)
        return machine.final_result()

    async def _events(self, span: WorkSpan) -> AsyncGenerator[RunEvent]:
        with span:  # not current: the code of the caller runs between the events
            try:
                async with (
                    self._given.open_async() as toolset,
                    aclosing(self._turn_events(toolset, span)) as events,
                ):
                    async for event in events:
                        yield event
            except LLMError as error:
                raise self._machine.ended_by(error) from error.__cause__
        yield RunFinished(self._machine.final_result())

    async def _turn_events(self, toolset: Toolset, span: WorkSpan) -> AsyncGenerator[RunEvent]:
        machine, turns = self._machine, self._turns
        calls = AsyncCalls(toolset, self._parallel, self._client, span)
        while (step := machine.next_step()) is not None:
            if isinstance(step, AskModel):
                tools = toolset.definitions
                async with aclosing(turns.deltas(step, machine, tools, span)) as deltas:
                    async for delta in deltas:
                        yield delta
                machine.record_answer(turns.answer())
            else:
                async with aclosing(calls.events(step, machine)) as events:
                    async for event in events:
                        yield event
            if not machine.calling and (finished := machine.turn_finished()) is not None:
                yield finished
