"""The rules of a run, in which a model calls tools until it answers. No I/O.

* A turn is an answer of the model, with the results of the tool calls in it. The first answer
  without tool calls ends the run, unless the provider has paused it: then it goes on.
* Every call gets exactly one result, and the results are sent in the order of the calls. A call
  that was interrupted gets a result that says so: the conversation is valid at any time.
* The limits are checked before each request to the model, so the last turn may exceed them. Only
  `timeout` also ends a turn that is under way.
* An error of a tool is a result. Too many errors in a row of the same tool end the run.
* A call whose arguments are not a JSON object is not executed: it is an error of its tool.
* A call at the end of an answer that was cut off may lack arguments, so it is not executed.
* A turn in which a call needs an approval executes nothing before all of them are decided. The run
  ends there, and another one goes on from its conversation, whose last message has the calls.
* A forced `tool_choice` applies to the first turn: otherwise the run would never end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple, Self

from pydantic_core import to_json

from ..._clock import monotonic
from .._answer import NO_USAGE, add_usages
from .._argument_errors import invalid
from .._call import KEEP_INVALID_CALLS
from .._check_messages import (
    RESPONSE_KEYS,
    CheckedMessages,
    check_messages,
    check_next_messages,
    listed,
)
from .._json import clean_text
from ..errors import (
    LLMApprovalRequired,
    LLMError,
    LLMRunLimitError,
    LLMRunTimeoutError,
    LLMToolError,
)
from ..types import CallOptions, Message, Response, ToolCall, Usage
from ._output import ToolOutput, bounded, error_output
from .events import Approval, RunResult, ToolCallFinished, TurnFinished

_CUT_OFF = "the call was cut off at max_tokens; make it again, with shorter arguments"
_INTERRUPTED = "the call was interrupted, and may or may not have taken effect"
_MAX_SHOWN = 1000  # characters of invalid arguments


class RunOptions(CallOptions, total=False):
    """The optional arguments of a run, besides those of `CallOptions`.

    Attributes:
        max_turns: the maximum number of answers of the model, 10 by default.
        max_tokens_total: the tokens of all answers together.
        max_cost: the dollars of all answers together.
        timeout: the seconds of the whole run.
        max_tool_errors: the number of errors in a row of the same tool that ends the run, 3 by
            default.
        max_parallel_calls: the number of calls of one answer that are executed at a time, 8 by
            default.
        max_result_chars: the length at which a tool result is cut, 100,000 by default.
        approvals: for calls that need an approval, by the id of the call: True, False or an
            `Approval`.
    """

    approvals: Mapping[str, bool | Approval]
    max_turns: int
    max_tokens_total: int | None
    max_cost: float | None
    timeout: float | None
    max_tool_errors: int
    max_parallel_calls: int
    max_result_chars: int


class Exceeded(NamedTuple):
    """A limit that is reached; `spent` is None if it cannot be determined."""

    limit: str
    maximum: float
    spent: float | None


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of a run; None means that there is none.

    Raises:
        LLMRequestError: a limit is not a positive number.
    """

    max_turns: int = 10
    max_tokens_total: int | None = None
    max_cost: float | None = None
    timeout: float | None = None
    max_tool_errors: int = 3
    max_parallel_calls: int = 8
    max_result_chars: int = 100_000

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_tool_errors", "max_parallel_calls", "max_result_chars"):
            _check_whole(name, getattr(self, name))
        if self.max_tokens_total is not None:
            _check_whole("max_tokens_total", self.max_tokens_total)
        for name, value in (("max_cost", self.max_cost), ("timeout", self.timeout)):
            if value is not None:
                _check_positive(name, value)

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """Return the limits among the options of a run, and remove them there."""
        if _NAMES.isdisjoint(options):
            return cls._default()
        return cls(**{name: options.pop(name) for name in options.keys() & _NAMES})

    @classmethod
    @cache
    def _default(cls) -> Self:
        return cls()

    def exceeded(self, turns: int, usage: Usage, seconds: float) -> Exceeded | None:
        """Return the limit that forbids another turn, None if there is none."""
        if turns >= self.max_turns:
            return Exceeded("max_turns", self.max_turns, turns)
        tokens, cost = usage["total_tokens"], usage["cost_estimate"]
        if self.max_tokens_total is not None and tokens >= self.max_tokens_total:
            return Exceeded("max_tokens_total", self.max_tokens_total, tokens)
        if self.max_cost is not None and (cost is None or cost >= self.max_cost):
            return Exceeded("max_cost", self.max_cost, cost)
        if self.timeout is not None and seconds >= self.timeout:
            return Exceeded("timeout", self.timeout, seconds)
        return None


_NAMES = frozenset(field.name for field in fields(RunLimits))


def _check_whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise invalid(name, "must be a whole number, 1 or more", value)


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise invalid(name, "must be a number greater than 0", value)


# The steps are not frozen: that would triple the cost of creating one.
@dataclass(slots=True)
class AskModel:
    """A step: send the conversation to the model."""

    turn: int
    messages: list[Message]
    tool_choice: Any

    def call_options(
        self, options: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the options of the call of the model; `options` are those of the run."""
        own = {"tools": tools or None, "tool_choice": self.tool_choice, KEEP_INVALID_CALLS: True}
        return {**options, **own}


@dataclass(slots=True)
class Requested:
    """A call that the model requests; a call with a `refusal` is not executed."""

    index: int
    call: ToolCall
    refusal: str | None = None
    note: str = ""  # for the model, before the result


@dataclass(slots=True)
class CallTools:
    """A step: execute the calls of a turn."""

    turn: int
    calls: Sequence[Requested]


def conversation(messages: Any) -> tuple[list[Message], CheckedMessages]:
    """Return the messages of the caller as a new list, and in the form of `ModelCall`.

    Raises:
        LLMRequestError: a message is wrong.
    """
    messages = listed(messages)
    checked = CheckedMessages(check_messages(messages))
    return [dict(message) for message in messages], checked


class RunMachine:
    """Decides what a run does next, and keeps its conversation.

    `checked` are the messages in the form of `ModelCall`, if they were checked.

    Attributes:
        messages: the conversation so far.
        turns: the number of requests to the model.
        usage: the tokens and the cost so far.
        result: the result, once the run has ended.
        stopping: True if no more calls of this turn are to be executed.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        limits: RunLimits,
        *,
        checked: CheckedMessages | None = None,
        tool_choice: Any = None,
        approvals: Mapping[str, bool | Approval] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.messages: list[Message] = list(messages)
        self.turns = 0
        self.approvals = {id_: _approval(one) for id_, one in (approvals or {}).items()}
        self.usage = NO_USAGE
        self.result: RunResult | None = None
        self.stopping = False
        self._checked = CheckedMessages() if checked is None else checked
        self._limits = limits
        self._tool_choice = tool_choice
        start = clock()
        self._elapsed: Callable[[], float] = lambda: clock() - start
        self._calls: list[Requested] = []  # of the current turn
        # By the index of the call, with the images of the output.
        self._finished: dict[int, tuple[ToolCallFinished, Sequence[str]]] = {}
        self._earlier: list[ToolCallFinished] = []
        self._errors: dict[str, int] = {}  # in a row, by tool
        self._final_error: LLMError | None = None
        self._turn: TurnFinished | None = None
        if waiting := _waiting_calls(self.messages):
            self.turns, self._calls = 1, _requested(waiting)

    def next_step(self) -> AskModel | CallTools | None:
        """Return the next step, None if the run has ended.

        Raises:
            LLMRunLimitError: a limit forbids another turn.
            LLMToolError: a tool has failed too often.
            ToolAbort: a tool has ended the run.
        """
        if self.result is not None:
            return None
        if self._calls:
            return CallTools(self.turns, self._calls)
        if self._final_error is not None:
            raise self.ended_by(self._final_error)
        self._check_limits()
        self.turns += 1
        choice = self._tool_choice
        if self.turns > 1 and choice not in (None, "none"):
            choice = "auto"
        return AskModel(self.turns, list(self.messages), choice)

    def checked_messages(self) -> CheckedMessages:
        """Return the conversation for the client; each message is checked once in a run.

        Raises:
            LLMRequestError: a message is wrong.
        """
        new = self.messages[len(self._checked) :]
        if new:
            self._checked = check_next_messages(self._checked, new)
        return self._checked

    def add_messages(self, texts: Sequence[str]) -> list[Message]:
        """Add what the user has said meanwhile to the conversation, and return it as messages."""
        added: list[Message] = [{"role": "user", "content": text} for text in texts]
        self.messages += added
        return added

    def record_answer(self, response: Response) -> None:
        """Record the answer of the model."""
        data = response["data"]
        spent = _spent(response)
        self._turn = TurnFinished(self.turns, response, spent)
        self.usage = add_usages([self.usage, spent])
        self.messages.append(_assistant_message(dict(data)))
        calls = data["tool_calls"]
        if not calls and not data.get("paused"):
            self.result = RunResult(
                response, self.messages, self.usage, self.turns, list(self._earlier)
            )
            return
        self._calls = _requested(calls, len(calls) - 1 if data.get("truncated") else None)

    def check_approvals(self, needs_approval: Callable[[ToolCall], bool]) -> None:
        """Decide the calls of this turn.

        Raises:
            LLMApprovalRequired: some are not decided.
        """
        asking = [one for one in self._calls if one.refusal is None and needs_approval(one.call)]
        waiting = [one.call for one in asking if one.call["id"] not in self.approvals]
        if waiting:
            raise _approval_error(waiting)
        for one in asking:
            _decide(one, self.approvals[one.call["id"]])

    def record_output(self, index: int, output: ToolOutput, seconds: float) -> ToolCallFinished:
        """Record the output of a call of this turn."""
        call, note = self._calls[index].call, self._calls[index].note
        text = bounded(f"{note}{output.text}", self._limits.max_result_chars)
        finished = ToolCallFinished(
            self.turns, call["id"], call["name"], call["arguments"], text, output.is_error, seconds
        )
        self._finished[index] = finished, output.images
        if output.abort is not None:
            self.stop(output.abort)
        return finished

    def stop(self, error: LLMError) -> None:
        """End the run with an error after this turn; no more calls are executed."""
        self.stopping = True
        self._final_error = self._final_error or error

    def end_calls(self) -> None:
        """End the turn: append the results to the conversation, in the order of the calls."""
        images: list[str] = []
        for requested in self._calls:
            if requested.index not in self._finished:
                self.record_output(requested.index, error_output(_INTERRUPTED), 0.0)
            finished, shown = self._finished[requested.index]
            self._earlier.append(finished)
            self.messages.append(_tool_message(finished))
            images += shown
            self._count_errors(finished)
        if images:
            self.messages.append(_image_message(images))
        self._calls, self._finished = [], {}

    def final_result(self) -> RunResult:
        """Return the result of a run that has ended."""
        if self.result is None:
            raise RuntimeError("the run has not ended")
        return self.result

    def turn_finished(self) -> TurnFinished | None:
        """Return the event for the end of a turn, None if an earlier run had asked the model."""
        return self._turn

    @property
    def calling(self) -> bool:
        """True while the calls of a turn are to be executed."""
        return bool(self._calls)

    def seconds_left(self) -> float | None:
        """Return the seconds until the time limit, None if there is none."""
        timeout = self._limits.timeout
        return None if timeout is None else timeout - self._elapsed()

    def timeout_error(self) -> LLMError:
        """Return the error for a run that has reached its time limit."""
        timeout = self._limits.timeout or 0.0
        return _limit_error(Exceeded("timeout", timeout, self._elapsed()))

    def ended_by(self, error: LLMError) -> LLMError:
        """Add the conversation and the usage to the error that ends the run, and return it."""
        if self._calls and not isinstance(error, LLMApprovalRequired):
            self.end_calls()
        error.conversation = self.messages
        error.usage = self.usage if error.spent is None else add_usages([self.usage, error.spent])
        return error

    def _check_limits(self) -> None:
        seconds = self._elapsed()
        exceeded = self._limits.exceeded(self.turns, self.usage, seconds)
        if exceeded is not None:
            raise self.ended_by(_limit_error(exceeded))

    def _count_errors(self, finished: ToolCallFinished) -> None:
        if not finished.is_error:
            self._errors.pop(finished.name, None)
            return
        failures = self._errors[finished.name] = self._errors.get(finished.name, 0) + 1
        if failures >= self._limits.max_tool_errors:
            self.stop(_tool_error(finished, failures))


def _waiting_calls(messages: Sequence[Message]) -> Sequence[ToolCall]:
    """Return the calls of the last message, whose results are missing."""
    last = messages[-1] if messages else {}
    return last.get("tool_calls") or () if last.get("role") == "assistant" else ()


def _requested(calls: Sequence[ToolCall], cut_off: int | None = None) -> list[Requested]:
    return [
        Requested(index, call, _CUT_OFF if index == cut_off else _refusal(call))
        for index, call in enumerate(calls)
    ]


def _approval(given: Any) -> Approval:
    if isinstance(given, bool):
        return Approval(given)
    if not isinstance(given, Approval):
        raise invalid("approvals", "must be True, False or an Approval for each call", given)
    return given


def _decide(requested: Requested, approval: Approval) -> None:
    if not approval.approved:
        reason = f": {approval.reason}" if approval.reason else ""
        requested.refusal = f"the user did not allow this call{reason}"
    elif approval.arguments is not None and approval.arguments != requested.call["arguments"]:
        arguments = dict(approval.arguments)
        requested.call = {**requested.call, "arguments": arguments}
        shown = to_json(arguments).decode()
        requested.note = f"The user changed the arguments of this call to {shown}.\n"


def _approval_error(calls: Sequence[ToolCall]) -> LLMApprovalRequired:
    names = ", ".join(repr(call["name"]) for call in calls)
    error = LLMApprovalRequired(
        f"the run waits for the approval of calls of {names}: pass `conversation` to run again, "
        "with approvals={call id: True or False}"
    )
    error.calls = calls
    return error


def _refusal(call: ToolCall) -> str | None:
    """Return why a call is not executed, None if it is."""
    invalid = call.get("invalid_arguments")
    if invalid is None:
        return None
    shown = repr(bounded(invalid, _MAX_SHOWN))
    return f"the arguments are not a JSON object: {shown}; make the call again, with a JSON object"


def _spent(response: Response) -> Usage:
    """Return the usage of all attempts of a call."""
    return response.get("spent") or response["usage"]


def _assistant_message(data: dict[str, Any]) -> Message:
    """Return an answer as a message, with everything that the provider expects back."""
    message: Message = {"role": "assistant"}
    message |= {key: value for key, value in data.items() if key not in RESPONSE_KEYS}
    if not message["tool_calls"]:
        del message["tool_calls"]
    return message


def _tool_message(finished: ToolCallFinished) -> Message:
    message: Message = {"role": "tool", "tool_call_id": finished.id, "content": finished.result}
    if finished.is_error:
        message["is_error"] = True
    return message


def _image_message(images: Sequence[str]) -> Message:
    """Return a user message with images: not every provider accepts them in a tool result."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": "Images returned by the tools:"}]
    parts += [{"type": "image_url", "image_url": {"url": image}} for image in images]
    return {"role": "user", "content": parts}


def _limit_error(exceeded: Exceeded) -> LLMRunLimitError:
    limit, maximum, spent = exceeded
    if spent is None:
        reached = f"the price of the model is not known, so {limit} ({maximum:g}) cannot be checked"
    else:
        reached = f"it has reached {limit}: {spent:g} of {maximum:g}"
    kind = LLMRunTimeoutError if limit == "timeout" else LLMRunLimitError
    error = kind(f"the run was ended, because {reached}; `conversation` has the messages so far")
    error.limit, error.maximum, error.reached = exceeded
    return error


def _tool_error(finished: ToolCallFinished, failures: int) -> LLMToolError:
    error = LLMToolError(
        f"the run was ended, because the tool {finished.name!r} has failed {failures} times in a "
        f"row; the last time with: {clean_text(finished.result)}"
    )
    error.tool, error.failures, error.result = finished.name, failures, finished.result
    return error
