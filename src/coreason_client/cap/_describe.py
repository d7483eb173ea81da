"""Descriptions of requests and of unexpected responses for error messages, without secrets."""

import json

from .._http._checks import problem_message, shown
from .._http._types import Request, ResponseHead

__all__ = ["describe_request", "describe_response", "is_position_gone"]

_POSITION_GONE = "urn:coreason:problem:position-gone"


def describe_request(request: Request, proxy: str | None) -> str:
    """Return the method and the URL of a request, and its proxy if there is one."""
    via = "" if proxy is None else f" through the proxy {proxy}"
    return f"{request.method} {shown(request.url)}{via}"


def describe_response(request: Request, head: ResponseHead, body: bytes) -> str:
    """Return the request and its response in one sentence, with the text of a problem document."""
    response = f"HTTP {head.status}"
    if head.status == 200:
        response = f"a response of type {head.content_type or 'unknown'}, not text/event-stream"
    sentence = f"{request.method} {shown(request.url)} was answered with {response}"
    try:
        message = problem_message(json.loads(body))
    except ValueError:
        return sentence
    return f"{sentence}: {message}" if message else sentence


def is_position_gone(body: bytes) -> bool:
    """Return True if a problem document says that the server has no packets after a position."""
    try:
        problem = json.loads(body)
    except ValueError:
        return False
    return isinstance(problem, dict) and problem.get("type") == _POSITION_GONE
