"""Shared by the bindings: settings, the protocol of a call, and error responses. Pure."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import from_json

from .._context import trace_headers
from .._http._checks import check_headers, check_url, merged_headers, problem_message, shown
from .._http._types import (
    TIMEOUT_FAILURES,
    UNSENT_FAILURES,
    Request,
    ResponseHead,
    TimeoutLike,
    Timeouts,
    TransportFailure,
    timeouts_from,
)
from .._retry import Backoff, retry_after
from .._version import __version__
from ..errors import ArgumentError
from ..sse._decode import DEFAULT_MAX_EVENT_BYTES
from ._dialects import ERRORS_BY_CODE, ERRORS_BY_REASON, ERRORS_BY_STATUS, Dialect, Operation
from .errors import (
    A2AConnectionError,
    A2AError,
    A2AHTTPError,
    A2AJSONError,
    A2AJSONRPCError,
    A2AStreamClosedError,
    A2ATimeoutError,
    reason_of,
)
from .types import Event

_MAX_BODY_KEPT = 65_536


@dataclass(frozen=True)
class Settings:
    """The settings for calls to an agent, on any interface; checked when they are created.

    Raises:
        ArgumentError: a setting is not valid.
    """

    unary: Timeouts = field(default_factory=lambda: timeouts_from(180.0))
    stream: Timeouts = field(default_factory=lambda: timeouts_from(60.0))
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extensions: tuple[str, ...] = ()
    max_retries: int = 3
    backoff: Backoff = field(default_factory=Backoff)
    max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES
    max_body_bytes: int = 10_000_000

    def __post_init__(self) -> None:
        if isinstance(self.max_retries, bool) or not isinstance(self.max_retries, int):
            raise TypeError(f"max_retries must be a whole number, got {self.max_retries!r}")
        if self.max_retries < 0:
            raise ArgumentError("max_retries", "must be 0 or more", self.max_retries)
        for name in ("max_event_bytes", "max_body_bytes"):
            if getattr(self, name) < 1:
                raise ArgumentError(name, "must be at least 1", getattr(self, name))
        check_headers(self.headers)

    def sent_headers(
        self, dialect: Dialect, operation: Operation, params: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the headers of a call; the caller cannot replace those of the protocol."""
        protocol_headers = {
            "Accept": "text/event-stream, application/json"
            if operation.streams
            else "application/json",
            "A2A-Version": dialect.version,
        }
        uris = [*self.extensions, *_message_extensions(params)]
        if uris:
            value = ",".join(dict.fromkeys(uris))
            protocol_headers |= dict.fromkeys(dialect.extension_headers, value)
        agent = {"User-Agent": f"coreason-client/{__version__}"}
        trace = trace_headers(self.headers)
        return merged_headers(agent, trace, self.headers, protocol_headers)

    def for_call(
        self, timeout: float | TimeoutLike | None = None, headers: Mapping[str, str] | None = None
    ) -> "Settings":
        """Return the settings of one call; its headers replace those of the client.

        Raises:
            ValueError, TypeError: the timeout or a header is not valid.
        """
        if timeout is None and not headers:
            return self
        limits = None if timeout is None else timeouts_from(timeout)
        return replace(
            self,
            unary=limits or self.unary,
            stream=limits or self.stream,
            headers=merged_headers(self.headers, headers or {}),
        )


def _message_extensions(params: Mapping[str, Any]) -> list[str]:
    message = params.get("message")
    return (message.get("extensions") or []) if isinstance(message, dict) else []


class ChannelCall(Protocol):
    """One request to an agent, and the parsing of its response."""

    request: Request

    @property
    def operation(self) -> Operation: ...
    @property
    def channel(self) -> "Channel": ...

    def parse_response(self, body: bytes) -> Any:
        """Parse a complete body; raises the error that it contains."""

    def parse_event(self, data: bytes) -> Event:
        """Parse the data of one event of a stream; raises the error that it contains."""

    def response_error(self, head: ResponseHead, body: bytes) -> A2AError:
        """Return the error for a response whose status is not 2xx."""

    def try_other_verb(self, head: ResponseHead, error: A2AError) -> bool:
        """Return True if the call should be repeated with another HTTP verb, and switch to it."""


class Channel(Protocol):
    """One interface of an agent in one dialect."""

    @property
    def dialect(self) -> Dialect: ...

    def call(
        self,
        operation: Operation,
        params: dict[str, Any],
        last_event_id: str | None = None,
        settings: Settings | None = None,
    ) -> ChannelCall:
        """Build a call; `params` have the shape of 1.0, `settings` replace those of the channel."""


# Errors


def json_error(what: str, body: bytes, error: Exception) -> A2AJSONError:
    """Return the error for a body that does not have the expected form.

    Raise it from None: the original error quotes what the agent sent, which may be a key.
    """
    from coreason_manifest.definitions._base import explain  # here: its models are built at import

    reason = explain(error) if isinstance(error, ValidationError) else str(error)
    return A2AJSONError(f"{what} is not valid: {reason}", body=body[:_MAX_BODY_KEPT])


def json_rpc_error(error: object, **fields: Any) -> A2AJSONRPCError | None:
    """Return the exception for a JSON-RPC error object, None if it is not one."""
    if not isinstance(error, dict):
        return None
    code = error.get("code")
    if not isinstance(code, int) or isinstance(code, bool):
        return None
    kind = ERRORS_BY_CODE.get(code, A2AJSONRPCError)
    return kind(str(error.get("message", "")), code=code, data=error.get("data"), **fields)


def status_error(error: object, **fields: Any) -> A2AJSONRPCError | None:
    """Return the exception for a `google.rpc.Status`, None if the protocol does not define it."""
    if not isinstance(error, dict):
        return None
    details = error.get("details")
    kind = ERRORS_BY_REASON.get(reason_of(details) or "")
    if kind is None and isinstance(status := error.get("status"), str):
        kind = ERRORS_BY_STATUS.get(status)
    return None if kind is None else kind(str(error.get("message", "")), data=details, **fields)


def http_error(request: Request, head: ResponseHead, body: bytes, parse_error: Any) -> A2AError:
    """Return the error for a response whose status is not 2xx.

    `parse_error` turns an error object into a protocol exception, or returns None.
    """
    fields: dict[str, Any] = {
        "status": head.status,
        "headers": head.headers,
        "body": body[:_MAX_BODY_KEPT],
        "retry_after": retry_after(head.headers, time.time),
    }
    try:
        problem = from_json(body)
    except ValueError:
        problem = None
    problem = problem if isinstance(problem, dict) else {}
    protocol_error: A2AError | None = parse_error(problem.get("error"), **fields)
    if protocol_error is not None:
        return protocol_error
    message = f"{request.method} {shown(request.url)} was answered with HTTP {head.status}"
    detail = problem_message(problem)
    return A2AHTTPError(f"{message}: {detail}" if detail else message, **fields)


def connection_error(
    request: Request, failure: TransportFailure, attempts: int
) -> A2AConnectionError:
    """Return the error for a request without a response."""
    kind = A2ATimeoutError if failure.kind in TIMEOUT_FAILURES else A2AConnectionError
    where = f"{request.method} {shown(request.url)}{failure.via}"
    error = kind(f"no answer to {where}: {failure}")
    error.attempts = attempts
    error.__cause__ = failure.__cause__ or failure
    return error


def stream_closed(
    cause: str,
    error: Exception | None = None,
    failures: int = 0,
    server_delay: float | None = None,
) -> A2AStreamClosedError:
    """Return the error for a stream that cannot be continued.

    `error` is what closed it; `failures` is the number of connections in a row without an event.
    """
    message = f"the stream closed before its task ended: {cause}"
    if failures > 1:
        message = f"{message} ({failures} connections in a row brought nothing new)"
    fields: dict[str, Any] = {"retry_after": server_delay}
    if isinstance(error, A2AError):
        fields |= {"status": error.status, "headers": error.headers, "body": error.body}
    closed = A2AStreamClosedError(message, **fields)
    closed.__cause__ = error if error is None else error.__cause__ or error
    return closed


def was_never_sent(failure: TransportFailure) -> bool:
    """Return True if the request was never sent, so another interface may be used."""
    return failure.kind in UNSENT_FAILURES


def checked_url(url: str, argument: str = "url") -> str:
    """Return the URL of an agent or a card after checking it; `argument` names it in errors.

    Raises:
        ArgumentError: it cannot be called.
        TypeError: it is not a string.
    """
    check_url(url, argument, credentials_go_into="auth")
    return url
