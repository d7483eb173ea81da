"""Runs the flows of `_client_flows` for the async client."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from .._drive import Wait
from .._http._types import TransportFailure
from ._client_flows import CallFlow, ClientCall, ReadTask, interrupted_wait
from ._options import CallOptions
from ._polling import waits_for_user
from .errors import A2AError
from .types import Task

__all__ = ["run_calls_async"]

Result = TypeVar("Result")
Step: TypeAlias = ClientCall | ReadTask | Wait
AsyncSleep: TypeAlias = Callable[[float], Awaitable[None]]


async def run_calls_async(
    flow: CallFlow[Result], target: Any, sleep: AsyncSleep, options: CallOptions
) -> Result:
    """Run a flow whose calls are methods of `target`, and return its value."""
    proceed: Callable[[Any], Step] = flow.send
    value: Any = None
    while True:
        try:
            step = proceed(value)
        except StopIteration as done:
            result: Result = done.value
            return result
        try:
            proceed, value = flow.send, await _take(step, target, sleep, options)
        except A2AError as error:
            proceed, value = flow.throw, error
        except TransportFailure as failure:
            proceed, value = flow.throw, interrupted_wait(failure)


async def _take(step: Step, target: Any, sleep: AsyncSleep, options: CallOptions) -> Any:
    """Carry out a step and return its result."""
    if isinstance(step, Wait):
        return await sleep(step.seconds)
    if isinstance(step, ReadTask):
        return await _read_task(target.resubscribe(step.task_id, **options))
    return await getattr(target, step.method)(step.argument, **options)


async def _read_task(events: Any) -> Task | None:
    """Read a stream of events until its task is over or waits for the user; return the task."""
    async with events as stream:
        async for event in stream:
            if waits_for_user(event):
                break
        task: Task | None = stream.task
        return task
