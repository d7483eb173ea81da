"""The decorator that makes each call of a function a step of the agent that calls it."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from .._context import current_stream
from .durable._journal import check_name
from .durable._notes import Policy
from .engine._steps import call_function, check_step, mark_async
from .stream import AgentStream

__all__ = ["step"]

P = ParamSpec("P")
T = TypeVar("T")


class _Decorator(Protocol):
    """`step` with options; it keeps the parameters and the result of the function."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __call__(self, function: Callable[P, T], /) -> Callable[P, Coroutine[Any, Any, T]]: ...


@overload
def step(
    function: Callable[P, Coroutine[Any, Any, T]], /
) -> Callable[P, Coroutine[Any, Any, T]]: ...


@overload
def step(function: Callable[P, T], /) -> Callable[P, Coroutine[Any, Any, T]]: ...


@overload
def step(
    *, name: str | None = ..., on_restart: Policy = ..., timeout: float | None = ...
) -> _Decorator: ...


def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    on_restart: Policy = "rerun",
    timeout: float | None = None,
) -> Any:
    """Make each call of a function a step, as with `AgentStream.step`; the name is the function's.

    ::

        @step
        async def search(query: str) -> list[str]: ...

        @step(on_restart="fail")
        def pay(order: Order) -> Receipt: ...

    The decorated function is awaited, also if it is a plain one, which then runs in a thread.
    Outside an agent it is just called. `name`, `on_restart` and `timeout` are those of
    `AgentStream.step`.

    Raises:
        ArgumentError: an option cannot be used.
    """
    if function is None:
        return functools.partial(step, name=name, on_restart=on_restart, timeout=timeout)
    inner: Callable[..., Any] = function
    called: str = name or getattr(inner, "__name__", "") or type(inner).__name__
    check_name("name", called if name is None else name)
    check_step(inner, on_restart, timeout)

    @functools.wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        stream: AgentStream | None = current_stream()
        bound = functools.partial(inner, **kwargs) if kwargs else inner
        if stream is None:
            return call_function(bound, args, called)
        return stream.step(called, bound, *args, on_restart=on_restart, timeout=timeout)

    mark_async(call)
    return call
