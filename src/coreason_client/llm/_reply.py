"""From a complete HTTP response to a response object, or to a classified failure. Pure."""

from typing import Any, cast

from .._drive import Reply
from .._http._types import ResponseHead, TransportFailure
from ._answer import Answer
from ._argument_errors import AnswerDict
from ._assemble import assemble, partial, usage_of
from ._classify import (
    Failure,
    answer_failure,
    malformed_failure,
    request_id,
)
from ._continuation import continued
from ._fault import Malformed
from ._json_reply import json_reply
from ._plan import Plan
from .errors import LLMError
from .types import Response

__all__ = ["read_answer", "read_reply"]


def read_reply(
    plan: Plan, result: Reply | TransportFailure | None, seconds: float, parse_as: Any = None
) -> Response | Failure:
    """Return the response object in a reply, or the failure; `seconds` was the timeout.

    `parse_as` is the caller's `response_format`.
    """
    reply = json_reply(plan.route, result, seconds)
    if isinstance(reply, Failure):
        return reply
    try:
        answer = plan.route.adapter.answer(reply.value)
    except Malformed as error:
        return malformed_failure(plan.route, reply.head, error, reply.body)
    outcome = read_answer(plan, reply.head, answer, parse_as)
    if plan.call.raw and not isinstance(outcome, Failure):
        outcome["raw"] = reply.value
    return outcome


def read_answer(
    plan: Plan, head: ResponseHead, answer: Answer, parse_as: Any, before: str = ""
) -> Response | Failure:
    """Return the response object for an answer, or a failure with the usable part of it.

    `before` is the text that was received before a stream broke, and that this answer continues.
    """
    answer = continued(answer, plan.prefix, plan.route.profile)
    try:
        answered = assemble(answer, plan.call, plan.price, parse_as)
        if before:
            answered["data"]["content"] = before + (answered["data"]["content"] or "")
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
