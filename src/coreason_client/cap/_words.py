"""Requests and unexpected responses in words, without secrets."""

import json

from .._http._checks import problem_message, shown
from .._http._types import Request, ResponseHead

__all__ = ["describe", "where"]


def where(request: Request, proxy: str | None) -> str:
    """Return the method and the URL of a request, and the proxy on the way to it."""
    through = "" if proxy is None else f" through the proxy {proxy}"
    return f"{request.method} {shown(request.url)}{through}"


def describe(request: Request, head: ResponseHead, body: bytes) -> str:
    """Return what was asked and what came back, with the text of a problem document."""
    what = f"HTTP {head.status}"
    if head.status == 200:
        what = f"a response of type {head.content_type or 'unknown'}, not text/event-stream"
    words = f"{request.method} {shown(request.url)} was answered with {what}"
    try:
        message = problem_message(json.loads(body))
    except ValueError:
        return words
    return f"{words}: {message}" if message else words
