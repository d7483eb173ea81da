"""Performs the steps of a run: asks the model, and executes its tool calls, several in threads."""

import copy
import queue
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeAlias

from ..._context import durable_sync_stream
from ..errors import LLMError, LLMResponseError, LLMTimeoutError
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
    ModelClient,
    failed,
    finish_span,
    known_secrets,
    runnable,
    start_thread,
    too_late,
    tool_span,
)
from ._run_machine import AskModel, CallTools, Requested, RunMachine
from .events import ToolCallFinished, ToolCallStarted
from .tool import RunnableTool, Toolset

_Timed: TypeAlias = tuple[ToolOutput, float]


class ModelTurns:
    """The turns of one run; `options` are those of `LLMClient.generate`.

    In a durable agent each answer is a step: after a restart, the model is not asked again. There,
    the deltas of an answer are yielded when it is complete.
    """

    def __init__(self, client: ModelClient, options: Mapping[str, Any]) -> None:
        self._client = client
        self._options = options
        self._response: Response | None = None

    def complete(
        self, step: AskModel, machine: RunMachine, tools: Sequence[Mapping[str, Any]]
    ) -> Response:
        """Return the answer, without its deltas.

        Raises:
            LLMError: there is no answer, or the time limit of the run is reached.
        """
        for _ in self._asked(self._generated(step, machine, tools), machine):
            pass
        return self.answer()

    def answer(self) -> Response:
        """Return the answer, after all its deltas."""
        if self._response is None:
            raise LLMResponseError("the stream ended before the answer did")
        return self._response

    def deltas(
        self,
        step: AskModel,
        machine: RunMachine,
        tools: Sequence[Mapping[str, Any]],
        run_span: WorkSpan,
    ) -> Generator[Delta]:
        """Yield the deltas of an answer; the span of the call is a child of `run_span`.

        Raises:
            LLMError: there is no answer, or the time limit of the run is reached.
        """
        received = self._received(step, machine, tools, run_span)
        with closing(self._asked(received, machine)) as deltas:
            yield from deltas

    def _asked(self, received: Generator[Delta], machine: RunMachine) -> Generator[Delta]:
        self._response = None
        stream = durable_sync_stream()
        limited = self._limited(received, machine)
        with closing(limited if stream is None else self._journaled(limited, stream)) as deltas:
            yield from deltas

    def _limited(self, received: Generator[Delta], machine: RunMachine) -> Generator[Delta]:
        try:
            yield from received
        except LLMTimeoutError:
            left = machine.seconds_left()
            if left is None or left > 0:
                raise
            raise machine.timeout_error() from None

    def _generated(
        self, step: AskModel, machine: RunMachine, tools: Sequence[Mapping[str, Any]]
    ) -> Generator[Delta]:
        """Request a complete answer, which has no deltas."""
        client = self._limited_client(machine)
        self._response = client.generate(
            machine.checked_messages(), **step.call_options(self._options, tools)
        )
        yield from ()

    def _received(
        self,
        step: AskModel,
        machine: RunMachine,
        tools: Sequence[Mapping[str, Any]],
        run_span: WorkSpan,
    ) -> Generator[Delta]:
        client = self._limited_client(machine)
        with run_span.current():
            opened = client.stream(
                machine.checked_messages(), **step.call_options(self._options, tools)
            )
        with opened as stream:
            for delta in stream:
                yield delta
                left = machine.seconds_left()
                if left is not None and left <= 0:
                    raise machine.timeout_error()
            self._response = stream.result()

    def _limited_client(self, machine: RunMachine) -> ModelClient:
        """Return the client with the time that is left as its deadline; it shares everything."""
        left = machine.seconds_left()
        if left is None:
            return self._client
        client = copy.copy(self._client)
        client.deadline = min(left, client.deadline or left)
        client.timeout = min(left, client.timeout)
        return client

    def _journaled(self, received: Generator[Delta], stream: Any) -> Generator[Delta]:
        """Receive an answer in a step of a durable agent, or yield the stored one."""
        seen: list[Delta] = []

        def ask() -> dict[str, Any]:
            try:
                seen.extend(received)
            except LLMError as error:
                return dump_turn(seen, None, error)
            return dump_turn(seen, self._response)

        ask.__qualname__ = "model"  # in the journal
        turn = load_turn(stream.step("model", ask))
        yield from seen or turn.deltas
        if turn.error is not None:
            raise turn.error
        if self._response is None and turn.response is not None:
            self._response = with_parsed(turn.response, self._options.get("response_format"))


class Calls:
    """Executes calls; at most `parallel` at a time, and all in the caller's thread if that is 1.

    In a durable agent the calls are executed one after the other, and each is a step. The spans of
    calls are children of `run_span`.
    """

    def __init__(
        self, toolset: Toolset, parallel: int, client: ModelClient, run_span: WorkSpan = NO_SPAN
    ) -> None:
        self._toolset = toolset
        self._parallel = parallel
        self._client = client
        self._run_span = run_span

    def complete(self, step: CallTools, machine: RunMachine) -> None:
        """Execute the calls of a turn and record their outputs, without events."""
        for _ in self.events(step, machine):
            pass

    def events(
        self, step: CallTools, machine: RunMachine
    ) -> Generator[ToolCallStarted | ToolCallFinished]:
        """Execute the calls of a turn and record their outputs.

        Calls in the caller's thread cannot be interrupted. Threads that run when the run is stopped
        or closed go on to their end; no further ones are started.
        """
        machine.check_approvals(self._toolset.needs_approval)
        for requested in step.calls:
            call = requested.call
            yield ToolCallStarted(step.turn, call["id"], call["name"], call["arguments"])
        if self._in_threads(step):
            yield from self._execute_in_threads(step, machine)
        else:
            for requested in step.calls:
                if machine.stopping or self._is_late(machine):
                    break
                with self._run_span.current():
                    output, seconds = self._work(requested)
                yield machine.record_output(requested.index, output, seconds)
        machine.end_calls()

    def _in_threads(self, step: CallTools) -> bool:
        return len(step.calls) > 1 and self._parallel > 1 and durable_sync_stream() is None

    def _is_late(self, machine: RunMachine) -> bool:
        left = machine.seconds_left()
        if left is None or left > 0:
            return False
        machine.stop(machine.timeout_error())
        return True

    def _execute_in_threads(
        self, step: CallTools, machine: RunMachine
    ) -> Generator[ToolCallFinished]:
        results: queue.SimpleQueue[tuple[int, _Timed | None, Exception | None]]
        results = queue.SimpleQueue()
        remaining = list(step.calls)
        running = 0
        while (remaining or running) and not machine.stopping:
            while remaining and running < self._parallel:
                requested = remaining.pop(0)
                with self._run_span.current():
                    start_thread(
                        partial(self._work, requested),
                        "coreason-tool",
                        partial(_put, results, requested.index),
                    )
                running += 1
            left = machine.seconds_left()
            try:
                index, timed, error = results.get(timeout=None if left is None else max(left, 0.0))
            except queue.Empty:
                machine.stop(machine.timeout_error())
                return
            running -= 1
            if timed is None:
                raise error or RuntimeError("a tool call ended without a result")
            yield machine.record_output(index, *timed)

    def _work(self, requested: Requested) -> _Timed:
        tool = runnable(self._toolset, requested)
        if isinstance(tool, ToolOutput):
            return tool, 0.0
        stream = durable_sync_stream()
        if stream is None:
            return self._timed(tool, requested)

        def call() -> dict[str, Any]:
            return dump_output(*self._timed(tool, requested))

        call.__qualname__ = f"tool {tool.name}"  # in the journal
        stored = stream.step(f"tool {tool.name}", call, on_restart=tool.on_restart)
        return load_output(stored)

    def _timed(self, tool: RunnableTool, requested: Requested) -> _Timed:
        start = time.monotonic()
        with tool_span(self._client, tool, requested) as span:
            with span.current():
                output = self._perform(tool, requested)
            finish_span(span, output)
        return output, time.monotonic() - start

    def _perform(self, tool: RunnableTool, requested: Requested) -> ToolOutput:
        try:
            function = tool.bind(requested.call["arguments"])
            if tool.timeout is None:
                return output_of(function())
            done: queue.SimpleQueue[tuple[int, Any, Exception | None]] = queue.SimpleQueue()
            start_thread(function, f"coreason-tool-{tool.name}", partial(_put, done, 0))
            try:
                _, value, error = done.get(timeout=tool.timeout)
            except queue.Empty:
                return too_late(tool)
            if error is not None:
                raise error
            return output_of(value)
        except Exception as error:  # noqa: BLE001 - the model gets it
            return failed(tool, error, known_secrets(self._client))


def _put(
    results: "queue.SimpleQueue[tuple[int, Any, Exception | None]]",
    index: int,
    value: Any,
    error: Exception | None,
) -> None:
    results.put((index, value, error))
