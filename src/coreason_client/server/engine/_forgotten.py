"""Calls of a stream that the agent has not awaited: they write nothing, and Python only warns.

Python calls a function of `warnings` when such a coroutine is dropped, in the frame that drops it:
that is the line of the call, unless the agent has kept the coroutine in a variable. The function is
not documented, so without it nothing is noticed. Calls that are awaited cost nothing.
"""

import sys
import warnings
from collections.abc import Callable, Coroutine
from types import CodeType
from typing import Any

from ..stream import AgentStream
from ._steps import JournaledSteps, Steps

__all__ = ["check_awaited", "watch_forgotten"]

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
