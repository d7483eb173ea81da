"""Performs the steps of a run: asks the model, and executes its tool calls concurrently."""

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar

from ..._context import durable_stream
from ..errors import LLMError, LLMResponseError
from ..observe._work_span import NO_SPAN, WorkSpan
from ..types import Delta, Response
from ._output import (
    ToolOutput,
    dump_output,
    dump_turn,
    load_output,
    load_turn,
    output_of,
    with_parsed,
)
from ._perform import (
    AsyncModelClient,
    failed,
    finish_span,
    known_secrets,
    run_in_thread,
    runnable,
    too_late,
    tool_span,
)
from ._run_machine import AskModel, CallTools, Requested, RunMachine
from .events import ToolCallFinished, ToolCallStarted
from .tool import RunnableTool, Toolset

_Timed: TypeAlias = tuple[ToolOutput, float]

T = TypeVar("T")


class AsyncModelTurns:
    """The turns of one run; `options` are those of `AsyncLLMClient.generate`.

    In a durable agent each answer is a step: after a restart, the model is not asked again.
    """

    def __init__(self, client: AsyncModelClient, options: Mapping[str, Any]) -> None:
        self._client = client
        self._options = options
        self._response: Response | None = None

    async def complete(
        self, step: AskModel, machine: RunMachine, tools: Sequence[Mapping[str, Any]]
    ) -> Response:
        """Return the answer, without its deltas.

        Raises:
            LLMError: there is no answer, or the time limit of the run is reached.
        """
        options = step.call_options(self._options, tools)
        stream = durable_stream()
        if stream is not None:
            return await self._stored(machine, options, stream)
        answer = self._client.generate(machine.checked_messages(), **options)
        return await (answer if machine.seconds_left() is None else _limited(machine, answer))

    async def _stored(self, machine: RunMachine, options: dict[str, Any], stream: Any) -> Response:
        """Request an answer in a step of a durable agent, or return the stored one."""
        self._response = None

        async def ask() -> dict[str, Any]:
            try:
                answer = self._client.generate(machine.checked_messages(), **options)
                self._response = await _limited(machine, answer)
            except LLMError as error:
                return dump_turn((), None, error)
            return dump_turn((), self._response)

        ask.__qualname__ = "model"  # in the journal
        turn = load_turn(await stream.step("model", ask))
        if turn.error is not None:
            raise turn.error
        answered: Response | None = self._response  # None if the step is a stored one
        if answered is None and turn.response is not None:
            answered = with_parsed(turn.response, self._options.get("response_format"))
        self._response = answered
        return self.answer()

    def answer(self) -> Response:
        """Return the answer, after all its deltas."""
        if self._response is None:
            raise LLMResponseError("the stream ended before the answer did")
        return self._response

    async def deltas(
        self,
        step: AskModel,
        machine: RunMachine,
        tools: Sequence[Mapping[str, Any]],
        run_span: WorkSpan,
    ) -> AsyncGenerator[Delta]:
        """Yield the deltas of an answer; the span of the call is a child of `run_span`.

        Raises:
            LLMError: there is no answer, or the time limit of the run is reached.
        """
        self._response = None
        stream = durable_stream()
        received = self._received(machine, step.call_options(self._options, tools), run_span)
        if stream is not None:
            received = self._journaled(received, stream)
        async with aclosing(received) as deltas:
            async for delta in deltas:
                yield delta

    async def _received(
        self, machine: RunMachine, options: dict[str, Any], run_span: WorkSpan
    ) -> AsyncGenerator[Delta]:
        with run_span.current():
            opened = self._client.stream(machine.checked_messages(), **options)
        async with opened as stream:
            while (delta := await _limited(machine, anext(stream, None))) is not None:
                yield delta
            self._response = await stream.result()

    async def _journaled(
        self, received: AsyncGenerator[Delta], stream: Any
    ) -> AsyncGenerator[Delta]:
        """Receive an answer in a step of a durable agent, or yield the stored one."""
        answer = _AnswerStep(received, lambda: self._response)

        async def ask() -> dict[str, Any]:
            return await answer.receive()

        ask.__qualname__ = "model"  # in the journal
        task = asyncio.create_task(stream.step("model", ask))
        task.add_done_callback(lambda _: answer.deltas.put_nowait(None))
        try:
            while (delta := await answer.deltas.get()) is not None:
                yield delta
        finally:
            answer.closing = True
            task.cancel()
            await asyncio.wait({task})
            await received.aclose()
        turn = load_turn(task.result())
        if not answer.called:
            for delta in turn.deltas:
                yield delta
            if turn.response is not None:
                self._response = with_parsed(turn.response, self._options.get("response_format"))
        if turn.error is not None:
            raise turn.error


class _AnswerStep:
    """Receives an answer in a step, in its own task; `deltas` is read by another task.

    `called` is True if the answer was received, and is not a stored one. `closing` is True once
    nobody reads the deltas any more.
    """

    def __init__(
        self, received: AsyncGenerator[Delta], response: Callable[[], Response | None]
    ) -> None:
        self.deltas: asyncio.Queue[Delta | None] = asyncio.Queue()
        self.called = False
        self.closing = False
        self._received = received
        self._response = response

    async def receive(self) -> dict[str, Any]:
        """Receive the answer and return it for the journal."""
        self.called = True
        seen: list[Delta] = []
        error: LLMError | None = None
        try:
            async for delta in self._received:
                seen.append(delta)
                self.deltas.put_nowait(delta)
        except LLMError as failure:
            error = failure
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.closing or task is None:
                raise
            task.uncancel()  # the reader has left, and will leave at the same delta again
        return dump_turn(seen, self._response(), error)


async def _limited(machine: RunMachine, work: Awaitable[T]) -> T:
    """Wait for something until the time limit of the run.

    Raises:
        LLMRunTimeoutError: the time limit is reached.
    """
    left = machine.seconds_left()
    if left is None:
        return await work
    limit = asyncio.timeout(left)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise machine.timeout_error() from None
        raise


class AsyncCalls:
    """Executes calls; at most `parallel` at a time.

    In a durable agent each call is a step, so it is not executed again after a restart. `stream` is
    the stream of the agent; by default, that of the durable agent that calls. The spans of calls
    are children of `run_span`.
    """

    def __init__(
        self,
        toolset: Toolset,
        parallel: int,
        client: AsyncModelClient,
        run_span: WorkSpan = NO_SPAN,
        stream: Any = None,
    ) -> None:
        self._toolset = toolset
        self._parallel = parallel
        self._slots: asyncio.Semaphore | None = None  # a single call needs none
        self._client = client
        self._run_span = run_span
        self._stream = durable_stream() if stream is None else stream

    async def complete(self, step: CallTools, machine: RunMachine) -> None:
        """Execute the calls of a turn and record their outputs, without events."""
        machine.check_approvals(self._toolset.needs_approval)
        if _needs_no_task(step, machine):
            machine.record_output(0, *await self._work(step.calls[0]))
            machine.end_calls()
            return
        async with aclosing(self.events(step, machine)) as events:
            async for _ in events:
                pass

    async def events(
        self, step: CallTools, machine: RunMachine
    ) -> AsyncGenerator[ToolCallStarted | ToolCallFinished]:
        """Execute the calls of a turn and record their outputs.

        The calls that remain when the run is stopped, cancelled or closed are cancelled.
        """
        machine.check_approvals(self._toolset.needs_approval)
        for call in [requested.call for requested in step.calls]:
            yield ToolCallStarted(step.turn, call["id"], call["name"], call["arguments"])
        if _needs_no_task(step, machine):
            with self._run_span.current():
                output, seconds = await self._work(step.calls[0])
            yield machine.record_output(0, output, seconds)
            machine.end_calls()
            return
        tasks: list[asyncio.Task[_Timed]] = []
        self._slots = asyncio.Semaphore(self._parallel)
        # A restarted agent must see the results in the same order.
        in_order = self._stream is not None
        try:
            with self._run_span.current():
                for requested in step.calls:  # the numbers of the steps are taken in this order
                    tasks.append(asyncio.create_task(self._work(requested)))  # noqa: PERF401
            waiting = dict(enumerate(tasks))
            while waiting and not machine.stopping:
                awaited = [next(iter(waiting.values()))] if in_order else waiting.values()
                done, _ = await asyncio.wait(
                    awaited,
                    timeout=_not_negative(machine.seconds_left()),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:
                    machine.stop(machine.timeout_error())
                for index in [index for index, task in waiting.items() if task in done]:
                    output, seconds = waiting.pop(index).result()
                    yield machine.record_output(index, output, seconds)
        finally:
            await _cancel(tasks)
        machine.end_calls()

    def _work(self, requested: Requested) -> Coroutine[Any, Any, _Timed]:
        tool = runnable(self._toolset, requested)
        if isinstance(tool, ToolOutput):
            return _immediate(tool)
        if self._stream is None:
            return self._timed(tool, requested)

        async def call() -> dict[str, Any]:
            return dump_output(*await self._timed(tool, requested))

        call.__qualname__ = f"tool {tool.name}"  # in the journal
        step = self._stream.step(f"tool {tool.name}", call, on_restart=tool.on_restart)
        return _loaded(step)

    async def _timed(self, tool: RunnableTool, requested: Requested) -> _Timed:
        if self._slots is None:
            return await self._measured(tool, requested)
        async with self._slots:
            return await self._measured(tool, requested)

    async def _measured(self, tool: RunnableTool, requested: Requested) -> _Timed:
        start = time.monotonic()
        with tool_span(self._client, tool, requested) as span:
            with span.current():
                output = await self._perform(tool, requested)
            finish_span(span, output)
        return output, time.monotonic() - start

    async def _perform(self, tool: RunnableTool, requested: Requested) -> ToolOutput:
        limit: asyncio.Timeout | None = None
        try:
            if tool.timeout is None:
                return output_of(await _called(tool, requested))
            async with asyncio.timeout(tool.timeout) as limit:
                return output_of(await _called(tool, requested))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return failed(tool, error, known_secrets(self._client))  # raised by the tool itself
        except Exception as error:  # noqa: BLE001 - the model gets it
            if limit is not None and limit.expired() and isinstance(error, TimeoutError):
                return too_late(tool)
            return failed(tool, error, known_secrets(self._client))


async def _called(tool: RunnableTool, requested: Requested) -> Any:
    """Call the function of a tool and return its value."""
    function = tool.bind(requested.call["arguments"])
    if tool.is_async:
        value = await function()
    else:
        value = await run_in_thread(function, f"coreason-tool-{tool.name}")
    if isinstance(value, str) or not inspect.isawaitable(value):  # text is by far most common
        return value
    return await value


async def _immediate(output: ToolOutput) -> _Timed:
    return output, 0.0


async def _loaded(step: Coroutine[Any, Any, dict[str, Any]]) -> _Timed:
    return load_output(await step)


def _needs_no_task(step: CallTools, machine: RunMachine) -> bool:
    """Return True if nothing but the end of the only call is to be awaited."""
    return len(step.calls) == 1 and machine.seconds_left() is None


def _not_negative(seconds: float | None) -> float | None:
    return None if seconds is None else max(seconds, 0.0)


async def _cancel(tasks: Sequence[asyncio.Task[_Timed]]) -> None:
    """Cancel the tasks that are not done, and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
