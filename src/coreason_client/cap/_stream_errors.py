"""The errors of one stream, with position, request and response as fields. Pure."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError

from .._connections import Connections
from .._http._checks import problem_message, shown
from .._http._types import Request, ResponseHead, TransportFailure
from .._retry import parse_seconds
from ._numbering import Numbering
from .errors import CAPConnectionError, CAPError, CAPRuntimeError, CAPTimeoutError

__all__ = [
    "NO_DETAILS",
    "FailureDetails",
    "StreamErrors",
    "describe_request",
    "describe_response",
    "details_of",
    "ended_with",
    "is_position_gone",
]

# Descriptions of requests and of unexpected responses for error messages, without secrets.

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


_Error = TypeVar("_Error", bound=CAPError)
_MAX_OUTCOME = 100  # characters of the header; codes are far shorter


@dataclass(frozen=True, slots=True)
class FailureDetails:
    """The response, failure or error packet behind a loss; its fields become those of the error."""

    server_delay: float | None = None
    failure: TransportFailure | None = None
    head: ResponseHead | None = None
    body: bytes | None = None
    stream_error: StreamError | None = None

    @property
    def cause(self) -> BaseException | None:
        """The exception that the error is raised from."""
        return self.failure and (self.failure.__cause__ or self.failure)


NO_DETAILS = FailureDetails()


def details_of(error: StreamError) -> FailureDetails:
    """Return the details of an error packet."""
    delay = parse_seconds((error.details or {}).get("retry_after"))
    return FailureDetails(delay, stream_error=error)


def ended_with(outcome: str) -> StreamError:
    """Return the error of a stream that has ended with this outcome, as far as a 204 tells it."""
    message = "the stream has ended with this error"
    return StreamError(code=outcome[:_MAX_OUTCOME], message=message, severity=ErrorSeverity.FATAL)


class StreamErrors:
    """Builds errors that contain the read position and the request.

    `redact` removes the credentials from a text, and `proxy_for` returns the proxy for a URL.

    Attributes:
        proxy: the proxy of the last connection that failed, if that is known.
    """

    __slots__ = ("_connections", "_numbering", "_proxy_for", "proxy", "redact")

    def __init__(
        self,
        connections: Connections,
        numbering: Numbering,
        redact: Callable[[str], str],
        proxy_for: Callable[[str], str | None],
    ) -> None:
        self._connections = connections
        self._numbering = numbering
        self._proxy_for = proxy_for
        self.proxy: str | None = None
        self.redact = redact

    def make(
        self, kind: type[_Error], message: str, details: FailureDetails = NO_DETAILS
    ) -> _Error:
        """Return an error with all known fields."""
        position, request = self._numbering.position, self._connections.request
        head = details.head
        message = self.redact(message)
        return kind(
            message if position is None else f"{message} (read up to {position})",
            position=position,
            attempts=self._connections.budget.failures,
            method=None if request is None else request.method,
            url=None if request is None else shown(request.url),
            proxy=None if request is None else self._proxy_of(request),
            status_code=None if head is None else head.status,
            headers=None if head is None else head.headers,
            body=details.body,
            retry_after=details.server_delay,
            stream_error=details.stream_error,
        )

    def fatal(self, error: StreamError, details: FailureDetails = NO_DETAILS) -> CAPRuntimeError:
        """Return the error for a fatal error in the stream; `details` are those of a response."""
        known = details_of(error)
        known = replace(known, head=details.head, body=details.body)
        return self.make(CAPRuntimeError, self.describe(error), known)

    def describe(self, error: StreamError) -> str:
        """Return an error packet as text, without secrets."""
        return self.redact(f"{error.code}: {error.message}")

    def exhausted(self, why: str, details: FailureDetails) -> CAPConnectionError:
        """Return the error for an exhausted retry budget."""
        budget = self._connections.budget
        asked, longest = details.server_delay, budget.max_server_delay
        if asked is not None and asked > longest:
            reason = f"the server asks to wait {asked:g} s, more than max_retry_delay={longest:g}"
        elif budget.failures == 1:
            reason = "the connection brought no new packet"
        else:
            reason = f"{budget.failures} connections in a row brought no new packet"
        message = f"{self.describe_request()} failed: {reason}; the last one: {why}"
        return self.make(CAPConnectionError, message, details)

    def expired(self, why: str, details: FailureDetails = NO_DETAILS) -> CAPTimeoutError:
        """Return the error for a deadline that has passed."""
        deadline = self._connections.deadline
        message = f"{self.describe_request()} passed its deadline of {deadline:g} s: {why}"
        return self.make(CAPTimeoutError, message, details)

    def unusable_redirect(
        self, head: ResponseHead, body: bytes, why: ValueError
    ) -> CAPRuntimeError:
        """Return the error for a redirect that cannot be followed."""
        message = f"{self.describe_response(head, body)}, a redirect that is not followed: {why}"
        return self.make(CAPRuntimeError, message, FailureDetails(head=head, body=body))

    def describe_request(self) -> str:
        """Return method, URL and proxy of the last request as text."""
        request = self._connections.request
        if request is None:
            return "the request"
        return describe_request(request, self._proxy_of(request))

    def _proxy_of(self, request: Request) -> str | None:
        return self.proxy or self._proxy_for(request.url)

    def describe_response(self, head: ResponseHead, body: bytes) -> str:
        """Describe a response that does not carry the stream, without secrets."""
        request = self._connections.request
        assert request is not None  # noqa: S101 - a response follows a request
        return self.redact(describe_response(request, head, body))
