"""Executes the tool calls of a turn: several calls in threads, a single one in the caller's."""

import queue
import time
from collections.abc import Generator
from functools import partial
from typing import Any, TypeAlias

from ..._agent_context import durable_sync_stream
from ..observe._work_span import NO_SPAN, WorkSpan
from ._journal import dump_output, load_output
from ._model_client import ModelClient
from ._output import ToolOutput, output_of
from ._perform import failed, finish_span, known_secrets, refused, too_late, tool_span
from ._run_machine import CallTools, Requested, RunMachine
from ._threads import start_thread
from ._toolset import RunnableTool, Toolset
from .events import ToolCallFinished, ToolCallStarted

__all__ = ["Calls"]

_Timed: TypeAlias = tuple[ToolOutput, float]


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
        output = refused(self._toolset, requested)
        tool = self._toolset.find(requested.call["name"])
        if output is not None or tool is None:
            return output or ToolOutput(""), 0.0
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
