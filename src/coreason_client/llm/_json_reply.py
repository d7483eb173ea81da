"""Reads the JSON of a complete HTTP response, or classifies its failure. Pure."""

from dataclasses import dataclass
from typing import Any

from .._drive import Reply
from .._http._types import FailureKind, ResponseHead, TransportFailure
from ._classify import Failure, connection_failure, http_failure, malformed_failure
from ._json import parse_or_none
from ._route import Route

__all__ = ["JSONReply", "json_reply", "wrong_body"]


@dataclass(slots=True)
class JSONReply:
    """A successful response: its head, its body, and the JSON value in the body."""

    head: ResponseHead
    body: bytes
    value: Any


def json_reply(
    route: Route,
    result: Reply | TransportFailure | None,
    seconds: float,
    *,
    accepted: type | tuple[type, ...] = dict,
) -> JSONReply | Failure:
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


def wrong_body(head: ResponseHead, body: bytes) -> str:
    """Describe a body that is not a JSON object."""
    if not body.strip():
        return "the body is empty"
    if head.content_type == "text/html" or body.lstrip()[:1] == b"<":
        return "the body is a web page; check base_url"
    return "the body is not a JSON object"
