"""The spans and the metrics of calls, of tool calls and of runs, as the conventions define them."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from ..._context import error_type, trace_headers
from ..._secret import redact
from .._plan import CallPlan
from ..errors import LLMError
from ..types import Usage
from . import _telemetry_names as names
from ._attributes import (
    Attributes,
    Identity,
    as_json,
    identity_attributes,
    input_messages,
    metric_attributes,
    operation_of,
    output_messages,
    request_attributes,
    response_attributes,
    target_attributes,
    tool_definitions,
    usage_attributes,
)
from ._instruments import Instruments, report
from ._work_span import WorkSpan

Outcome: TypeAlias = Literal["complete", "error", "cancelled", "closed"]

_SPENT = {
    "prompt_tokens": names.SPENT_INPUT,
    "completion_tokens": names.SPENT_OUTPUT,
    "cached_tokens": names.SPENT_CACHE_READ,
    "cache_write_tokens": names.SPENT_CACHE_WRITE,
    "reasoning_tokens": names.SPENT_REASONING,
}


class CallEnding(NamedTuple):
    """The end of a call.

    `first_chunk` is in seconds, None if no chunk was received. `spent` is the usage of all
    attempts, None if nothing was received.
    """

    attempts: int
    error: BaseException | None
    response: Mapping[str, Any] | None
    identity: Identity
    first_chunk: float | None
    spent: Usage | None = None

    @property
    def partial(self) -> Mapping[str, Any] | None:
        """The usable part of an answer that is incomplete, None if there is none."""
        return self.error.partial if isinstance(self.error, LLMError) else None


def outcome_of(ending: CallEnding) -> Outcome:
    """Return the outcome; a caller that stops reading after the last delta has a full answer."""
    error = ending.error
    if isinstance(error, Exception):
        return "error"
    if error is None or ending.response is not None:
        return "complete"
    return "closed" if isinstance(error, GeneratorExit) else "cancelled"


class CallTelemetry:
    """Reports one call to OpenTelemetry.

    A failure has the status ERROR and an `error.type`. A call that the caller cancels, or a stream
    that it closes early, is not a failure.
    """

    def __init__(self, instruments: Instruments, plan: Any) -> None:
        self._instruments = instruments
        self._options = instruments.options
        self._first = self._plan = plan
        self._target = target_attributes(plan)
        attributes = self._target | request_attributes(plan)
        self._span = instruments.span(_name(plan), attributes, client=True)

    def begin(self) -> None:
        """Start the span."""
        self._span.begin()
        if self._records_content and isinstance(self._plan, CallPlan):
            call, redact = self._plan.call, self._plan.route.redact
            self._span.set({names.INPUT_MESSAGES: redact(input_messages(call.messages))})
            if call.tools:
                self._span.set({names.TOOL_DEFINITIONS: redact(tool_definitions(call.tools))})

    def current(self) -> Any:
        """Make the span current for a block, which must not yield."""
        return self._span.current()

    def headers(self, request_headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that continue the trace at the provider; empty unless requested."""
        if not self._options.send_trace_headers:
            return {}
        with self._span.current():
            return trace_headers(request_headers)

    def attempt_started(self, plan: Any) -> None:
        """Record the request of an attempt, which may be for another model than the one before."""
        if plan is self._plan:
            return
        self._plan = plan
        self._target = target_attributes(plan)
        self._span.rename(_name(plan))
        self._span.set(self._target | request_attributes(plan))
        if plan.requested_model != self._first.requested_model:
            self._span.set({names.REQUESTED_MODEL: self._first.requested_model})

    def attempt_failed(self, number: int, error: BaseException) -> None:
        """Record a failed attempt."""
        attributes = {
            names.ATTEMPT: number,
            names.REQUEST_MODEL: self._plan.route.model,
            names.ERROR_TYPE: error_type(error),
        }
        self._span.add_event(names.ATTEMPT_FAILED, attributes)

    def chunk(self, seconds: float) -> None:
        """Record a chunk of a stream after the first one, with the time since the one before."""
        for metric in (names.OPERATION_CHUNK, names.INFERENCE_CHUNK):
            self._record(metric, seconds, self._target)

    def end(self, ending: CallEnding) -> None:
        """Record the metrics and end the span."""
        outcome = outcome_of(ending)
        failure = ending.error if outcome == "error" else None
        self._span.measure()
        try:
            identity = identity_attributes(self._plan.route, ending.identity)
            if self._span.records:
                self._span.set(self._final_attributes(ending, outcome) | identity)
            self._record_metrics(ending, metric_attributes(self._target, identity, failure))
        finally:
            self._span.end(failed=failure is not None)

    def _final_attributes(self, ending: CallEnding, outcome: Outcome) -> Attributes:
        attributes: Attributes = {names.OUTCOME: outcome, names.ATTEMPTS: ending.attempts}
        if ending.first_chunk is not None:
            attributes[names.RESPONSE_TIME_TO_FIRST_CHUNK] = ending.first_chunk
        if outcome == "error" and ending.error is not None:
            attributes[names.ERROR_TYPE] = error_type(ending.error)
        answer = ending.response or ending.partial
        if ending.response is not None:
            attributes |= response_attributes(self._plan.route, ending.response)
        attributes |= usage_attributes(answer["usage"] if answer else ending.spent, ending.spent)
        if not self._is_chat:
            attributes.pop(names.USAGE_OUTPUT_TOKENS, None)
            return attributes
        if outcome != "complete":
            attributes[names.RESPONSE_FINISH_REASONS] = ["error"]  # as the conventions require
        if answer is not None and self._records_content:
            content = self._plan.route.redact(output_messages(answer["data"]))
            attributes[names.OUTPUT_MESSAGES] = content
        return attributes

    @property
    def _is_chat(self) -> bool:
        return operation_of(self._plan) == names.CHAT

    @property
    def _records_content(self) -> bool:
        return self._options.record_content and self._span.records

    def _record_metrics(self, ending: CallEnding, attributes: Attributes) -> None:
        chat, seconds = self._is_chat, self._span.seconds
        if chat:
            self._record(names.INFERENCE_DURATION, seconds, attributes)
        if not chat or self._options.metric_names != "latest":
            self._record(names.OPERATION_DURATION, seconds, attributes)
        shared = {name: attributes[name] for name in attributes if name != names.ERROR_TYPE}
        if ending.first_chunk is not None:
            for metric in (names.OPERATION_FIRST_CHUNK, names.INFERENCE_FIRST_CHUNK):
                self._record(metric, ending.first_chunk, shared)
        answer = ending.response or ending.partial
        for usage in (ending.spent, None if answer is None else answer["usage"]):
            if usage is not None and not usage.get("estimated"):
                self._record_tokens(usage, shared, chat=chat)
                break

    def _record_tokens(self, usage: Usage, shared: Attributes, *, chat: bool) -> None:
        """Record tokens that a provider has counted; estimates are not recorded."""
        read, written = usage["prompt_tokens"], usage["completion_tokens"]
        self._record(names.TOKEN_USAGE, read, {**shared, names.TOKEN_TYPE: "input"})
        if not chat:  # an embedding has no output, and the latest metrics are those of inference
            return
        self._record(names.TOKEN_USAGE, written, {**shared, names.TOKEN_TYPE: "output"})
        self._record(names.INFERENCE_INPUT, read, shared)
        self._record(names.INFERENCE_OUTPUT, written, shared)
        counts: Mapping[str, Any] = usage
        by_modality = {**shared, names.TOKEN_MODALITY: "unknown"}
        for key, metric in _SPENT.items():
            if key in counts:
                self._record(metric, counts[key], by_modality)

    def _record(self, metric: names.Metric, value: float, attributes: Attributes) -> None:
        self._instruments.record(metric, value, attributes, self._span.context)


def _name(plan: Any) -> str:
    return f"{operation_of(plan)} {plan.route.model}"


# Tool calls and runs.


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

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
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
