"""Parts of a run that both clients share: the client, one tool call, and threads."""

import asyncio
import contextvars
import logging
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ..observe._observation import Observation
from ..observe._work_span import NO_SPAN, WorkSpan
from ..streams import AsyncLLMStream, LLMStream
from ..types import Response
from ._function_schema import ArgumentsError
from ._output import ToolOutput, error_output, failure_output
from ._run_machine import Requested
from .tool import RunnableTool, Toolset

logger = logging.getLogger("coreason_client.llm")


class AsyncModelClient(Protocol):
    """The async client, as a run sees it."""

    _observation: Observation

    def generate(
        self, messages: Sequence[Mapping[str, Any]], **options: Any
    ) -> Awaitable[Response]: ...

    def stream(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> AsyncLLMStream: ...


class ModelClient(Protocol):
    """The sync client, as a run sees it."""

    deadline: float | None
    timeout: float
    _observation: Observation

    def generate(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Response: ...

    def stream(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> LLMStream: ...


def runnable(toolset: Toolset, requested: Requested) -> RunnableTool | ToolOutput:
    """Return the tool of a call, or the output of a call that is not executed."""
    if requested.refusal is not None:
        return error_output(requested.refusal)
    name = requested.call["name"]
    return toolset.find(name) or error_output(toolset.unknown(name))


def failed(tool: RunnableTool, error: BaseException, secrets: Iterable[str]) -> ToolOutput:
    """Return the output of a call that raised an error, and log the error."""
    if isinstance(error, ArgumentsError):
        return error_output(f"invalid arguments: {error}", "invalid_arguments")
    output = failure_output(error, secrets)
    if output.abort is None:
        logger.warning("the tool %s failed: %s", tool.name, output.text, exc_info=error)
    return output


def too_late(tool: RunnableTool) -> ToolOutput:
    """Return the output of a call that took longer than the timeout of its tool."""
    late = f"the tool took longer than its timeout of {tool.timeout:g} s"
    return error_output(late, "timeout")


def tool_span(client: Any, tool: RunnableTool, requested: Requested) -> WorkSpan:
    """Return the span of a call, in a run of the client."""
    observation: Observation = client._observation
    if observation.instruments() is None:
        return NO_SPAN
    call, secrets = requested.call, known_secrets(client)
    return observation.tool(tool.name, call["id"], call["arguments"], tool.kind, secrets)


def finish_span(span: WorkSpan, output: ToolOutput) -> None:
    """Record the output of a call in its span."""
    span.set_result(output.text)
    if output.is_error:
        span.set_error(output.error_type)


def known_secrets(client: Any) -> list[str]:
    """Return the keys of a client: a tool may use the same ones, and show them in an error."""
    target = client._target
    keys = (target.api_key, *target.keys.values())
    return [key for key in keys if isinstance(key, str) and key]


# Plain functions in threads, one thread for each call.
#
# After a call, a few threads wait for the next one: starting a thread costs more than a short call.
# A thread cannot be stopped from outside: if nobody waits for its call any more, the call runs to
# its end, and its result is dropped. The threads are daemons and do not keep the process alive.


async def run_in_thread(function: Callable[[], Any], name: str) -> Any:
    """Run a function in a new thread, with the context variables of this task."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if done.done():  # the wait was cancelled
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def finished(result: Any, error: Exception | None) -> None:
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the event loop is closed, so no task waits
            return

    start_thread(function, name, finished)
    return await done


def start_thread(
    function: Callable[[], Any], name: str, finished: Callable[[Any, Exception | None], None]
) -> None:
    """Run a function in a thread; `finished` gets its result or its error, in that thread."""
    context = contextvars.copy_context()

    def run() -> None:
        threading.current_thread().name = name
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001 - passed to the caller
            finished(None, _carried(error))
        else:
            finished(result, None)

    try:
        _idle.pop().put(run)
    except IndexError:
        jobs: _Jobs = queue.SimpleQueue()
        jobs.put(run)
        threading.Thread(target=_work, args=(jobs,), name=name, daemon=True).start()


_Jobs: TypeAlias = "queue.SimpleQueue[Callable[[], None]]"
_idle: list[_Jobs] = []  # of the threads that wait; the last one is used first
_MAX_IDLE = 8
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_idle.clear)  # a child has no threads


def _work(jobs: _Jobs) -> None:
    while True:
        jobs.get()()
        if len(_idle) >= _MAX_IDLE:
            return
        _idle.append(jobs)


def _carried(error: BaseException) -> Exception:
    """Return an error for the caller; a future cannot carry all, and a tool must not end it."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"the tool raised {type(error).__name__}")
