"""From a complete HTTP response to a response object, or to a classified failure. Pure."""

from typing import Any

from .._drive import Reply
from .._http._types import FailureKind, ResponseHead, TransportFailure
from ._answer import Answer
from ._assemble import assemble, partial
from ._classify import (
    Failure,
    answer_failure,
    connection_failure,
    http_failure,
    malformed_failure,
    request_id,
)
from ._continuation import continued
from ._fault import Malformed
from ._json import parse_or_none
from ._plan import Plan
from .errors import LLMError
from .types import Response

__all__ = ["read_answer", "read_reply", "wrong_body"]


def read_reply(
    plan: Plan, result: Reply | TransportFailure | None, parse_as: Any, seconds: float
) -> Response | Failure:
    """Return the response object in a reply, or the failure; `seconds` was the timeout."""
    if not isinstance(result, Reply):
        failure = result or TransportFailure(FailureKind.BROKEN, "nothing was received")
        return connection_failure(plan.route, failure, seconds)
    route, head, body = plan.route, result.head, result.body
    reply = parse_or_none(body)
    fault = route.adapter.fault(reply)
    if head.status != 200 or fault is not None:
        return http_failure(route, head, fault, body)
    if not isinstance(reply, dict):
        return malformed_failure(route, head, wrong_body(head, body), body, retryable=True)
    try:
        answer = route.adapter.answer(reply)
    except Malformed as error:
        return malformed_failure(route, head, error, body)
    return read_answer(plan, head, answer, parse_as)


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
        return {
            "status": "success",
            "data": answered["data"],
            "usage": answered["usage"],
            "model": plan.requested_model,
            "provider": plan.route.profile.name,
            "request_id": request_id(head),
            "seconds": 0.0,  # set when the call ends
        }
    except LLMError as error:
        if not answer.is_empty or answer.reasoning:
            error.partial = partial(answer, plan.call, plan.price)
        correctable = error.invalid_because is not None and answer.end != "length"
        invalid = (answer.content or "") if correctable else None
        return answer_failure(plan.route, head, error, invalid=invalid)


def wrong_body(head: ResponseHead, body: bytes) -> str:
    """Describe a body that is not a JSON object."""
    if not body.strip():
        return "the body is empty"
    if head.content_type == "text/html" or body.lstrip()[:1] == b"<":
        return "the body is a web page; check base_url"
    return "the body is not a JSON object"
