"""`Observation`: the hooks and the telemetry of one client.

Without hooks, and in a program that has not imported OpenTelemetry, it costs a call one lookup in
`sys.modules`; the modules that report are not even imported.
"""

import inspect
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ...errors import ArgumentError, MissingExtraError
from .._attempts import NOT_OBSERVED, CallObserver
from ._work_span import NO_SPAN, WorkSpan

if TYPE_CHECKING:
    from ._instruments import Instruments
    from ._spans import CallTelemetry
    from .hooks import RequestHook, ResponseHook
    from .telemetry import Telemetry

_API = "opentelemetry.trace"
# Between two looks for an SDK: OpenTelemetry reads the environment each time, which takes as long
# as checking the arguments of a call.
_LOOK_SECONDS = 0.1


class Observation:
    """Creates the observers of calls.

    `telemetry` is None to report if the program has configured an SDK of OpenTelemetry, False to
    report nothing, and True or options to import OpenTelemetry and report.

    Raises:
        ArgumentError: a hook is not a sync callable, or `telemetry` is not valid.
        MissingExtraError: telemetry is requested, but OpenTelemetry is not installed.
    """

    def __init__(
        self,
        telemetry: "Telemetry | bool | None" = None,
        on_request: "RequestHook | None" = None,
        on_response: "ResponseHook | None" = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._next_look = clock()
        self._on_request = _checked_hook("on_request", on_request)
        self._on_response = _checked_hook("on_response", on_response)
        self._has_hooks = on_request is not None or on_response is not None
        self._automatic = telemetry is None
        self._instruments: Instruments | None = None
        if telemetry is not None and telemetry is not False:
            self._instruments = _requested(telemetry)

    def observer(self, plan: Any) -> CallObserver:
        """Return the observer of a new call; `plan` is its first request."""
        instruments = self.instruments()
        if instruments is None and not self._has_hooks:
            return NOT_OBSERVED
        from ._observer import ReportingObserver

        telemetry = None if instruments is None else _call_telemetry(instruments, plan)
        stream = getattr(getattr(plan, "call", None), "stream", False)
        return ReportingObserver(self._on_request, self._on_response, telemetry, stream=stream)

    def tool(
        self,
        name: str,
        call_id: str,
        arguments: Any,
        kind: str = "function",
        secrets: Sequence[str] = (),
    ) -> WorkSpan:
        """Return the span of one tool call; `kind` is "function", or "extension" for MCP.

        `secrets` are removed from everything that is recorded.
        """
        if (instruments := self.instruments()) is None:
            return NO_SPAN
        from ._spans import tool_span

        return tool_span(instruments, name, call_id, arguments, kind, secrets)

    def run(self) -> WorkSpan:
        """Return the span of a run of a model with tools."""
        if (instruments := self.instruments()) is None:
            return NO_SPAN
        from ._spans import run_span

        return run_span(instruments)

    def instruments(self) -> "Instruments | None":
        """Return the tracer and the metrics, None if nothing is to be reported."""
        if self._instruments is None and self._automatic and sys.modules.get(_API) is not None:
            now = self._clock()
            if now >= self._next_look:
                self._next_look = now + _LOOK_SECONDS
                self._find_instruments()
        return self._instruments

    def _find_instruments(self) -> None:
        """Use the OpenTelemetry that the program has imported, once it has configured an SDK."""
        try:
            if _is_configured()():
                from ._instruments import Instruments
                from .telemetry import Telemetry

                self._instruments = Instruments(Telemetry())
        except ImportError:  # only a part of it is installed
            self._automatic = False


@cache
def _is_configured() -> Callable[[], bool]:
    """Return the function that looks for an SDK; imported on first use, and called often."""
    from ._instruments import is_configured

    return is_configured


def _call_telemetry(instruments: "Instruments", plan: Any) -> "CallTelemetry | None":
    """Return the telemetry of a call, None for a request that the conventions do not cover."""
    from ._attributes import operation_of
    from ._spans import CallTelemetry

    return None if operation_of(plan) is None else CallTelemetry(instruments, plan)


def _requested(telemetry: Any) -> "Instruments":
    from .telemetry import Telemetry

    options = Telemetry() if telemetry is True else telemetry
    if not isinstance(options, Telemetry):
        raise ArgumentError("telemetry", "must be a Telemetry, True, False or None", telemetry)
    try:
        from ._instruments import Instruments

        return Instruments(options)
    except ImportError as error:
        raise MissingExtraError("telemetry", "otel") from error


def _checked_hook(name: str, hook: Any) -> Any:
    if hook is None:
        return None
    if not callable(hook):
        raise ArgumentError(name, "must be a callable", hook)
    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__):
        raise ArgumentError(name, "must be a sync callable, also for AsyncLLMClient", hook)
    return hook
