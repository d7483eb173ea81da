"""The spans of tool calls and of runs, as the conventions define them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from ..._secret import redact
from ..._trace import error_type
from . import _telemetry_names as names
from ._attributes import Attributes
from ._content import as_json
from ._instruments import Instruments
from ._report import report
from ._work_span import WorkSpan

__all__ = ["run_span", "tool_span"]


def tool_span(
    instruments: Instruments,
    name: str,
    call_id: str,
    arguments: Any,
    kind: str,
    secrets: Sequence[str] = (),
) -> WorkSpan:
    """Return the span of a tool call: `execute_tool` and the name of the tool.

    `secrets` are removed from everything that is recorded.
    """
    shared = {
        names.OPERATION_NAME: names.EXECUTE_TOOL,
        names.TOOL_NAME: name,
        names.TOOL_TYPE: kind,
    }
    attributes: Attributes = {**shared, names.TOOL_CALL_ID: redact(call_id, secrets)}
    if instruments.options.record_content:
        attributes[names.TOOL_CALL_ARGUMENTS] = redact(as_json(arguments), secrets)
    title = f"{names.EXECUTE_TOOL} {name}"
    return _OpenSpan(instruments, title, attributes, names.TOOL_DURATION, shared, secrets)


def run_span(instruments: Instruments) -> WorkSpan:
    """Return the span of a run: `invoke_agent`; the calls of models and tools are its children."""
    shared = {names.OPERATION_NAME: names.INVOKE_AGENT}
    return _OpenSpan(instruments, names.INVOKE_AGENT, {**shared}, names.AGENT_DURATION, shared)


class _OpenSpan(WorkSpan):
    """A span that is reported."""

    __slots__ = ("_error", "_instruments", "_metric", "_secrets", "_shared", "_span")

    def __init__(
        self,
        instruments: Instruments,
        name: str,
        attributes: Attributes,
        metric: names.Metric,
        shared: Attributes,
        secrets: Sequence[str] = (),
    ) -> None:
        self._instruments = instruments
        self._metric = metric
        self._shared = shared
        self._secrets = secrets
        self._error: str | None = None
        self._span = instruments.span(name, attributes, client=False)

    def __enter__(self) -> Self:
        report(self._span.begin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            self._error = error_type(error)
        report(self._end, error)

    def _end(self, error: BaseException | None) -> None:
        found = {} if self._error is None else {names.ERROR_TYPE: self._error}
        outcome = "error" if found else "complete" if error is None else _stopped(error)
        self._span.set({names.OUTCOME: outcome, **found})
        seconds, context = self._span.measure(), self._span.context
        self._instruments.record(self._metric, seconds, {**self._shared, **found}, context)
        self._span.end(failed=bool(found))

    def current(self) -> AbstractContextManager[Any]:
        return self._span.current()

    def set_result(self, result: Any) -> None:
        if self._instruments.options.record_content:
            report(lambda: self._set_result(result))

    def _set_result(self, result: Any) -> None:
        self._span.set({names.TOOL_CALL_RESULT: redact(as_json(result), self._secrets)})

    def set_error(self, kind: str) -> None:
        self._error = kind


def _stopped(error: BaseException) -> str:
    return "closed" if isinstance(error, GeneratorExit) else "cancelled"
