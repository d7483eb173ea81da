"""A unary call: the flow of its requests, and how a reply becomes a response object. No I/O.

The rules of the response object, in the same form for every provider:

* Arguments are an object; others are an error, or are marked in a call that keeps them (a run).
* A tool call without an id gets one; one without a name is dropped.
* An answer with tool calls has the finish reason `tool_calls`, whatever the provider sent. If it
  was cut off at `max_tokens`, it is marked as `truncated`; a call with cut off arguments is an
  error.
* An answer that ended for a tool call, and has none, is an error.
* A filtered answer is marked as such if it has content; otherwise it is an error.
* Tokens that the provider did not count are estimated and marked as such.
* An unusable answer is an error; its `partial` contains the usable part.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from pydantic_core import ValidationError, from_json

from .._drive import Flow, Reply, Wait
from .._http._types import FailureKind, Request, ResponseHead, TransportFailure
from ._answer import (
    Malformed,
    ModelAnswer,
    RawToolCall,
    Tokens,
    estimate,
    estimate_text,
    new_call_id,
)
from ._argument_errors import AnswerDict
from ._attempts import Attempts
from ._call import ModelCall
from ._classify import (
    FailedAttempt,
    answer_failure,
    connection_failure,
    http_failure,
    malformed_failure,
    request_id,
)
from ._continuation import continued, without_range
from ._json import clean_text, is_finite, mapping, parse_or_none
from ._limits import PlanT
from ._plan import CallPlan
from ._response_format import format_name, parse_answer
from ._route import ModelRoute
from .errors import LLMError, LLMFilteredError, LLMResponseError, LLMTimeoutError
from .types import (
    Answered,
    Citation,
    PartialData,
    PartialResponse,
    Response,
    ResponseData,
    ToolCall,
    Usage,
)

Value = TypeVar("Value")
ReadReply = Callable[..., Value | FailedAttempt]


def call_flow(attempts: Attempts[PlanT], read: ReadReply[Value], *arguments: Any) -> Flow[Value]:
    """Send requests until one has an answer, and return its value.

    `read` gets the plan, the reply or failure, the timeout and the arguments; it returns the value
    of the reply, or the failure.

    Raises:
        LLMError: no attempt succeeded.
    """
    while True:
        step = attempts.next_step()
        result = yield step
        if not isinstance(step, Request):
            continue
        if isinstance(result, Reply):
            attempts.observer.head_received(result.head)
            attempts.observer.body_received(result.body)
            if attempts.gate is not None:
                attempts.gate.received(result.head)
        outcome = read(attempts.plan, result, attempts.timeout, *arguments)
        if not isinstance(outcome, FailedAttempt):
            return outcome
        attempts.record_failure(outcome)


def generate_flow(attempts: Attempts[CallPlan], parse_as: Any = None) -> Flow[Response]:
    """Send requests until there is an answer, and return the response object.

    A background response is read again until it has ended.

    Raises:
        LLMError: no attempt succeeded.
    """
    pause, unfinished = _FIRST_POLL, ""
    try:
        while True:
            found: Any = yield from call_flow(attempts, _read_or_wait, parse_as)
            if not isinstance(found, _Unfinished):
                response: Response = found
                return attempts.record_success(response)
            unfinished = found
            if not attempts.plan.free:
                attempts.plan = attempts.plan.polled(unfinished)
            yield Wait(min(pause, max(attempts.seconds_left(), 0.0)))
            pause = min(2 * pause, _LONGEST_POLL)
    except LLMTimeoutError as error:
        if unfinished:
            error.add_note(f"background_answer({unfinished!r}) reads the answer later")
        raise


# Reading a reply.

_RUNNING = ("queued", "in_progress")  # the states of a background response that has not ended
_FIRST_POLL, _LONGEST_POLL = 1.0, 10.0  # seconds before it is read again


class _Unfinished(str):
    """The id of a background response that has not ended."""

    __slots__ = ()


@dataclass(slots=True)
class JSONReply:
    """A successful response: its head, its body, and the JSON value in the body."""

    head: ResponseHead
    body: bytes
    value: Any


def json_reply(
    route: ModelRoute,
    result: Reply | TransportFailure | None,
    seconds: float,
    *,
    accepted: type | tuple[type, ...] = dict,
) -> JSONReply | FailedAttempt:
    """Return a reply with its JSON value, or the failure; `seconds` was the timeout.

    A value of another type than `accepted` is a failure, and so is an error inside a success.
    """
    if not isinstance(result, Reply):
        failure = result or TransportFailure(FailureKind.BROKEN, "nothing was received")
        return connection_failure(route, failure, seconds)
    head, body = result.head, result.body
    reply = parse_or_none(body)
    fault = route.adapter.fault(reply)
    if head.status != 200 or fault is not None:
        return http_failure(route, head, fault, body)
    if not isinstance(reply, accepted):
        return malformed_failure(route, head, wrong_body(head, body), body, retryable=True)
    return JSONReply(head, body, reply)


def reply_reader(
    read: Callable[[PlanT, JSONReply], Value], accepted: type | tuple[type, ...] = dict
) -> ReadReply[Value]:
    """Return what reads replies in `call_flow`; `read` returns the value of a success.

    A reply that `read` finds malformed is a failure, like one that `json_reply` does not accept.
    """

    def read_or_fail(
        plan: PlanT, result: Reply | TransportFailure | None, seconds: float
    ) -> Value | FailedAttempt:
        reply = json_reply(plan.route, result, seconds, accepted=accepted)
        if isinstance(reply, FailedAttempt):
            return reply
        try:
            return read(plan, reply)
        except Malformed as error:
            return malformed_failure(plan.route, reply.head, error, reply.body)

    return read_or_fail


def wrong_body(head: ResponseHead, body: bytes) -> str:
    """Describe a body that is not a JSON object."""
    if not body.strip():
        return "the body is empty"
    if head.content_type == "text/html" or body.lstrip()[:1] == b"<":
        return "the body is a web page; check base_url"
    return "the body is not a JSON object"


def _read_or_wait(
    plan: CallPlan, result: Reply | TransportFailure | None, seconds: float, parse_as: Any
) -> Response | FailedAttempt | _Unfinished:
    """Return what `read_reply` does, or the id of a background response that has not ended."""
    background = plan.free or plan.body.get("background") is True
    if background and isinstance(result, Reply) and result.head.status == 200:
        value = mapping(parse_or_none(result.body))
        if value.get("status") in _RUNNING and isinstance(value.get("id"), str):
            return _Unfinished(value["id"])
    return read_reply(plan, result, seconds, parse_as)


def read_reply(
    plan: CallPlan, result: Reply | TransportFailure | None, seconds: float, parse_as: Any = None
) -> Response | FailedAttempt:
    """Return the response object in a reply, or the failure; `seconds` was the timeout.

    `parse_as` is the caller's `response_format`.
    """
    reply = json_reply(plan.route, result, seconds)
    if isinstance(reply, FailedAttempt):
        return reply
    try:
        answer = plan.route.adapter.answer(reply.value)
    except Malformed as error:
        return malformed_failure(plan.route, reply.head, error, reply.body)
    outcome = read_answer(plan, reply.head, answer, parse_as)
    if plan.call.raw and not isinstance(outcome, FailedAttempt):
        outcome["raw"] = reply.value
    return outcome


def read_answer(
    plan: CallPlan, head: ResponseHead, answer: ModelAnswer, parse_as: Any, before: str = ""
) -> Response | FailedAttempt:
    """Return the response object for an answer, or a failure with the usable part of it.

    `before` is the text that was received before a stream broke, and that this answer continues.
    """
    if plan.prefix is not None:
        answer = continued(answer, plan.prefix, plan.route.profile)
    try:
        answered = assemble(answer, plan.call, plan.price, parse_as)
        if before:
            add_before(answered["data"], before)
        if answer.items:
            answered["data"]["provider_items"] = {plan.route.profile.name: answer.items}
        response: Response = {
            "status": "success",
            "data": answered["data"],
            "usage": answered["usage"],
            "model": plan.requested_model,
            "provider": plan.route.profile.name,
            "request_id": request_id(head),
            "seconds": 0.0,  # set when the call ends
        }
        return cast("Response", AnswerDict(response))
    except LLMError as error:
        usage = None if answer.tokens is None else usage_of(answer, plan.call, plan.price)
        if not answer.is_empty or answer.reasoning:
            error.partial = partial(answer, plan.call, plan.price)
        correctable = error.invalid_because is not None and answer.end != "length"
        invalid = (answer.content or "") if correctable else None
        return answer_failure(plan.route, head, error, invalid=invalid, usage=usage)


def add_before(data: ResponseData, before: str) -> None:
    """Add the text that an answer continues; ranges within the answer would be wrong."""
    data["content"] = before + (data["content"] or "")
    if "citations" in data:
        data["citations"] = [without_range(citation) for citation in data["citations"]]


# The response object.

Price = Callable[[Tokens], float | None]

_MAX_SHOWN = 200
_MAX_ERRORS = 20


def assemble(answer: ModelAnswer, call: ModelCall, price: Price, parse_as: Any = None) -> Answered:
    """Return the response for an answer; `parse_as` is the caller's `response_format`.

    Raises:
        LLMFilteredError: the provider withheld the answer.
        LLMResponseError: the arguments of a tool call, or the requested JSON, cannot be parsed, or
            an announced tool call is missing.
    """
    calls = [_checked_call(raw, answer, call) for raw in answer.calls if raw.name]
    if answer.end == "filtered" and not calls and not answer.content and not answer.media:
        raise LLMFilteredError(
            "the provider withheld the answer: its filter blocked the prompt or the answer"
        )
    if answer.end == "tool_calls" and not calls:
        raise LLMResponseError("the answer ended for a tool call, but has no usable tool call")
    response = _response(answer, calls, usage_of(answer, call, price))
    # Content beside tool calls is not the final answer, and a refusal is not JSON.
    if call.schema is not None and not calls and answer.end != "filtered":
        response["data"]["parsed"] = parse_content(answer, call, parse_as)
    return response


def partial(answer: ModelAnswer, call: ModelCall, price: Price) -> PartialResponse:
    """Return the received part of an answer.

    Calls with broken arguments are left out, and those of custom tools, which may be cut anywhere.
    """
    calls = [
        _tool_call(raw, arguments)
        for raw in answer.calls
        if (arguments := _arguments(raw)) is not None and not raw.custom
    ]
    data: PartialData = {"content": answer.content, "tool_calls": calls}
    _add_beside_text(data, answer)
    if answer.end == "length":
        data["truncated"] = True
    return {"status": "partial", "data": data, "usage": usage_of(answer, call, price)}


def _response(answer: ModelAnswer, calls: list[ToolCall], usage: Usage) -> Answered:
    data: ResponseData = {  # type: ignore[typeddict-item] # `parsed` is added where it applies
        "content": answer.content or (None if calls else ""),
        "tool_calls": calls,
        # With tool calls, the provider's own finish reason is ignored.
        "finish_reason": "tool_calls" if calls else "length" if answer.end == "length" else "stop",
    }
    _add_beside_text(data, answer)
    if answer.end == "filtered":
        data["filtered"] = True
    if answer.end == "paused":
        data["paused"] = True
    if answer.end == "length" and calls:  # without calls, `finish_reason` is "length"
        data["truncated"] = True
    return {"status": "success", "data": data, "usage": usage}


def _add_beside_text(data: ResponseData | PartialData, answer: ModelAnswer) -> None:
    """Add what an answer has besides text and calls."""
    if answer.reasoning:
        data["reasoning"] = answer.reasoning
    if answer.media:
        data["media"] = answer.media
    if answer.citations:
        placed = [_placed(one, answer.content or "") for one in answer.citations]
        data["citations"] = [one for at, one in enumerate(placed) if one and one not in placed[:at]]
    if answer.tool_results:
        data["tool_results"] = answer.tool_results


def _placed(citation: Citation, content: str) -> Citation:
    """Return a citation without its range if that is not in the text."""
    inside = 0 <= citation.get("start", 0) <= citation.get("end", 0) <= len(content)
    return citation if inside else without_range(citation)


def _checked_call(raw: RawToolCall, answer: ModelAnswer, call: ModelCall) -> ToolCall:
    arguments = _arguments(raw)
    if arguments is not None:
        return _tool_call(raw, arguments)
    if not call.keep_invalid_calls:
        raise _bad_arguments(raw, answer, call)
    text = _arguments_text(raw).encode("utf-8", "replace").decode()  # it is stored and sent
    return {**_tool_call(raw, {}), "invalid_arguments": text}


def _tool_call(raw: RawToolCall, arguments: dict[str, Any]) -> ToolCall:
    checked: ToolCall = {"id": raw.id or new_call_id(), "name": raw.name, "arguments": arguments}
    if raw.signature is not None:
        checked["signature"] = raw.signature
    if raw.custom:
        checked["custom"] = True
    return checked


def _arguments(raw: RawToolCall) -> dict[str, Any] | None:
    """Return the arguments of a call, None if they are not a JSON object."""
    given = raw.arguments
    if isinstance(given, dict):
        return given if is_finite(given) else None
    if not given or not given.strip():
        return {}
    try:
        arguments = from_json(given, allow_inf_nan=False)
    except (ValueError, TypeError):  # TypeError: half of a surrogate pair
        arguments = _parse_lenient(given)
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, dict) else None


def _parse_lenient(given: str) -> Any:
    """Parse JSON with control characters inside strings; False if it is not JSON."""
    try:
        return json.loads(given, strict=False, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return False


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _arguments_text(raw: RawToolCall) -> str:
    return raw.arguments if isinstance(raw.arguments, str) else json.dumps(raw.arguments)


def _bad_arguments(raw: RawToolCall, answer: ModelAnswer, call: ModelCall) -> LLMResponseError:
    given = _arguments_text(raw)
    what = f"the arguments of the tool call {raw.name!r}"
    if answer.end == "length":
        message = f"{what} were cut off at {_limit(call)}; increase it: {_short(given)}"
    else:
        message = f"{what} are not a JSON object: {_short(given)}"
    return LLMResponseError(message, body=given)


def parse_content(answer: ModelAnswer, call: ModelCall, parse_as: Any) -> Any:
    """Return the parsed content of an answer; `parse_as` is the caller's `response_format`.

    Raises:
        LLMResponseError: it is not the requested JSON.
    """
    content = answer.content or ""
    try:
        return parse_answer(content, parse_as)
    except ValidationError as error:
        reason = f"does not match {format_name(parse_as)}: {_first_error(error)}"
        details = f"does not match {format_name(parse_as)}:\n{_all_errors(error)}"
    except (ValueError, TypeError) as error:
        reason = details = f"is not JSON: {error}"
    cut = f", cut off at {_limit(call)}," if answer.end == "length" else ""
    message = f"the answer{cut} {clean_text(reason)}; see `body`"
    raise LLMResponseError(message, body=content, invalid_because=details)


def _limit(call: ModelCall) -> str:
    return f"max_tokens ({call.max_tokens})" if call.max_tokens else "max_tokens"


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]


def _all_errors(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[:_MAX_ERRORS]
    places = [".".join(map(str, each["loc"])) or "answer" for each in found]
    return "\n".join(f"- {place}: {each['msg']}" for place, each in zip(places, found, strict=True))


# Usage.


def dump_tokens(tokens: Tokens, cost: float | None = None) -> Usage:
    """Return token counts and their cost as a usage; kinds of tokens without any are left out."""
    prompt, completion = tokens.prompt or 0, tokens.completion or 0
    usage: Usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "cost_estimate": cost,
    }
    if tokens.cached:
        usage["cached_tokens"] = tokens.cached
    if tokens.cache_write:
        usage["cache_write_tokens"] = tokens.cache_write
    if tokens.reasoning:
        usage["reasoning_tokens"] = tokens.reasoning
    return usage


def usage_of(answer: ModelAnswer, call: ModelCall, price: Price) -> Usage:
    """Return the usage; tokens that the provider did not count are estimated."""
    tokens = answer.tokens or Tokens()
    estimated = tokens.prompt is None or tokens.completion is None
    if estimated:
        tokens = replace(
            tokens,
            prompt=estimate(_prompt_texts(call)) if tokens.prompt is None else tokens.prompt,
            completion=_estimate_completion(answer)
            if tokens.completion is None
            else tokens.completion,
        )
    usage = dump_tokens(tokens, price(tokens))
    if estimated:
        usage["estimated"] = True
    return usage


def _prompt_texts(call: ModelCall) -> list[str]:
    return ["".join(_texts(message)) for message in call.messages]


def _texts(message: Mapping[str, Any]) -> Iterable[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif content:
        yield from (part.get("text", "") for part in content)
    for call in message.get("tool_calls", ()):
        yield call["function"]["name"] + call["function"]["arguments"]


def _estimate_completion(answer: ModelAnswer) -> int:
    texts: Sequence[str] = (
        answer.content or "",
        answer.reasoning,
        *(f"{call.name}{call.arguments or ''}" for call in answer.calls),
    )
    return estimate_text("".join(texts))


def _short(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")
