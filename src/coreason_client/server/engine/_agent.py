"""The accepted forms of an agent, a runner for each, and calls of a stream without `await`."""

import inspect
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing
from types import CodeType
from typing import Any, TypeAlias

from coreason_manifest.definitions.presentation import (
    PresentationEvent,
    StreamError,
    StreamOpCode,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..._context import set_current_sync_stream
from ..durable._approvals import ApprovalPending
from ..stream import AgentStream
from ..sync_stream import Bridge, SyncAgentStream
from ._packets import QUESTION_NOT_OPEN
from ._step_context import in_thread
from ._steps import JournaledSteps, Steps
from ._threads import run_in_thread
from ._writer import until_it_answers

# Calls of a stream that the agent has not awaited: they write nothing, and Python only warns.
#
# Python calls a function of `warnings` when such a coroutine is dropped, in the frame that drops
# it: that is the line of the call, unless the agent has kept the coroutine in a variable. The
# function is not documented, so without it nothing is noticed. Calls that are awaited cost nothing.

_HOOK = "_warn_unawaited_coroutine"
_METHODS: dict[CodeType, str] = {
    function.__code__: "step" if kind is not AgentStream else name
    for kind in (AgentStream, Steps, JournaledSteps)
    for name, function in vars(kind).items()
    if hasattr(function, "__code__") and (kind is AgentStream or name == "_run")
}


def watch_forgotten() -> None:
    """Begin to record forgotten calls in their streams; the warning is shown as before."""
    warn: Callable[[Any], None] | None = getattr(warnings, _HOOK, None)
    if warn is None or getattr(warn, "records_streams", False):
        return

    def record(coroutine: Coroutine[Any, Any, Any]) -> None:
        method = _METHODS.get(getattr(coroutine, "cr_code", None))  # type: ignore[arg-type]
        if method is not None:
            owner = coroutine.cr_frame.f_locals["self"]  # type: ignore[attr-defined]
            steps = owner._steps if isinstance(owner, AgentStream) else owner
            frame = sys._getframe(1)
            steps.forgotten.append(
                f"stream.{method}() in {frame.f_code.co_filename}, line {frame.f_lineno}"
            )
        warn(coroutine)

    record.records_streams = True  # type: ignore[attr-defined]
    setattr(warnings, _HOOK, record)


def check_awaited(stream: AgentStream) -> None:
    """Check, at the end of an agent, that it has awaited its calls.

    Raises:
        RuntimeError: it has not, so a part of the answer is missing.
    """
    if forgotten := stream._steps.forgotten:
        raise RuntimeError(f"`await` is missing before {', '.join(forgotten[:5])}")


Yielded: TypeAlias = str | PresentationEvent | StreamError | dict[str, Any]
Agent: TypeAlias = (
    Callable[[ServiceRequest, AgentStream], Awaitable[str | None]]
    | Callable[[ServiceRequest], Awaitable[str | None]]
    | Callable[[ServiceRequest, AgentStream], AsyncIterator[Yielded]]
    | Callable[[ServiceRequest], AsyncIterator[Yielded]]
    | Callable[[ServiceRequest, SyncAgentStream], str | None]
    | Callable[[ServiceRequest], str | None]
    | Callable[[ServiceRequest, SyncAgentStream], Iterator[Yielded]]
    | Callable[[ServiceRequest], Iterator[Yielded]]
)
Runner: TypeAlias = Callable[[ServiceRequest, AgentStream], Awaitable[None]]

_MAX_PIECE = 100_000  # characters in one packet, far below the limit of readers
_EXPECTED = (
    "an agent is `async def assist(request, stream)`, or `def assist(request, stream)` to run in a "
    "thread; it writes to the stream, returns text, or yields text and events, and may leave out "
    "`stream`"
)


def as_runner(agent: object) -> Runner:
    """Return a coroutine function that runs the agent on a stream.

    Raises:
        TypeError: `agent` is not in one of the accepted forms.
    """
    if not callable(agent):
        raise TypeError(f"{_EXPECTED}; {_name(agent)} cannot be called")
    if inspect.isclass(agent):
        raise TypeError(f"{_EXPECTED}; {_name(agent)} is a class: pass a method of an instance")
    call: Callable[..., Any] = agent
    if not _takes(agent, 2):
        if not _takes(agent, 1):
            raise TypeError(f"{_EXPECTED}; {_name(agent)} does not take these arguments")
        call = _without_stream(agent)
    if _is(inspect.isasyncgenfunction, agent):
        return _from_generator(call)
    if _is(inspect.iscoroutinefunction, agent):
        return _from_coroutine(call, _name(agent))
    return _from_plain(call, _name(agent))


def is_generator_without_stream(agent: object) -> bool:
    """Return True if an agent is a generator that takes only the request."""
    generator = _is(inspect.isasyncgenfunction, agent) or _is(inspect.isgeneratorfunction, agent)
    return generator and callable(agent) and not _takes(agent, 2)


def answering(runner: Runner) -> Runner:
    """Return an agent that does not start with an answer that comes too late."""

    async def run(request: ServiceRequest, stream: AgentStream) -> None:
        if await until_it_answers(stream._writer, stream._writer.turns.is_late):
            await stream.fail(QUESTION_NOT_OPEN.code, QUESTION_NOT_OPEN.message)
        else:
            await runner(request, stream)

    return run


def continuing(runner: Runner) -> Runner:
    """Return a durable agent that goes on after an approval, and ends when it asks for one."""

    async def run(request: ServiceRequest, stream: AgentStream) -> None:
        if isinstance(stream._steps, JournaledSteps):
            stream._request = request = await stream._steps.go_on()
        try:
            await runner(request, stream)
        except BaseException as error:
            if not _is_pending(error):
                raise

    return run


def _is_pending(error: BaseException | None) -> bool:
    """Return True if an agent has asked for an approval, also in a thread or a group of tasks."""
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return (
        isinstance(error, ApprovalPending)
        or (isinstance(error, RuntimeError) and isinstance(error.__cause__, ApprovalPending))
        or any(map(_is_pending, inner))
    )


def _without_stream(agent: Callable[..., Any]) -> Callable[..., Any]:
    return lambda request, _: agent(request)


def _from_coroutine(agent: Callable[..., Any], name: str) -> Runner:
    async def run(request: ServiceRequest, stream: AgentStream) -> None:
        await _write_returned(stream, await agent(request, stream), name)

    return run


def _from_generator(agent: Callable[..., Any]) -> Runner:
    async def run(request: ServiceRequest, stream: AgentStream) -> None:
        # A cancelled generator runs its `finally` now, not when it is garbage-collected.
        async with aclosing(agent(request, stream)) as items:
            async for item in items:
                await write_item(stream, item)

    return run


def _from_plain(agent: Callable[..., Any], name: str) -> Runner:
    async def run(request: ServiceRequest, stream: AgentStream) -> None:
        bridge = Bridge(stream)

        def work() -> object:
            in_thread()
            sync_stream = SyncAgentStream(bridge)
            set_current_sync_stream(sync_stream)
            returned = agent(request, sync_stream)
            if not isinstance(returned, Iterator):
                return returned
            _write_all(bridge, returned)
            return None

        returned = await run_in_thread(work, f"coreason-agent-{stream.stream_id}")
        await _write_returned(stream, returned, name)

    return run


def _write_all(bridge: Bridge, items: Iterator[object]) -> None:
    try:
        for item in items:
            bridge.wait(write_item(bridge.stream, item))
    finally:
        if inspect.isgenerator(items):
            items.close()


async def _write_returned(stream: AgentStream, returned: object, name: str) -> None:
    if isinstance(returned, str):
        for start in range(0, len(returned), _MAX_PIECE):
            await stream.write(returned[start : start + _MAX_PIECE])
    elif returned is not None:
        hint = ""
        if inspect.iscoroutine(returned):
            returned.close()
            hint = ". Declare it with `async def`, and every function that wraps it too"
        raise TypeError(
            f"the agent {name} must return its text as a string, or None if it has written to the "
            f"stream, got {type(returned).__name__}{hint}"
        )


async def write_item(stream: AgentStream, item: object) -> None:
    """Write text, an event or an error.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(item, str):
        await stream.write(item)
    elif isinstance(item, StreamError):
        await stream.write_packet(op=StreamOpCode.ERROR, p=item)
    elif isinstance(item, PresentationEvent | dict):
        await stream.write_packet(op=StreamOpCode.EVENT, p=item)
    else:
        raise TypeError(f"an agent must yield text, events or errors, got {type(item).__name__}")


def _is(kind: Callable[[object], bool], agent: object) -> bool:
    # An instance with an async __call__ is accepted like a function.
    return kind(agent) or kind(getattr(agent, "__call__", None))  # noqa: B004


def _takes(agent: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(agent).bind(*[None] * count)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    return True


def _name(agent: object) -> str:
    return getattr(agent, "__qualname__", None) or type(agent).__qualname__
