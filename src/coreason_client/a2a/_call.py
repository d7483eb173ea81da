"""What the bindings share: settings, the shape of a call, and how refusals become errors. Pure."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import from_json

from coreason_manifest.definitions._base import explain

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
from .._trace import trace_headers
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

__all__ = [
    "Call",
    "Channel",
    "Settings",
    "checked_url",
    "connection_error",
    "http_error",
    "json_error",
    "json_rpc_error",
    "status_error",
    "stream_closed",
    "unreached",
]

_LONGEST_BODY_KEPT = 65_536


@dataclass(frozen=True)
class Settings:
    """How to talk to an agent, whatever the interface; checked when it is made.

    Raises:
        ArgumentError: a setting that cannot work.
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
            raise TypeError(f"max_retries must be a whole number, not {self.max_retries!r}")
        if self.max_retries < 0:
            raise ArgumentError("max_retries", "must be 0 or more", self.max_retries)
        for name in ("max_event_bytes", "max_body_bytes"):
            if getattr(self, name) < 1:
                raise ArgumentError(name, "must be at least 1", getattr(self, name))
        check_headers(self.headers)

    def sent_headers(
        self, dialect: Dialect, operation: Operation, params: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the headers of a call; those of the protocol are not the caller's to change."""
        own = {
            "Accept": "text/event-stream, application/json"
            if operation.streams
            else "application/json",
            "A2A-Version": dialect.version,
        }
        uris = [*self.extensions, *_message_extensions(params)]
        if uris:
            own |= dict.fromkeys(dialect.extension_headers, ",".join(dict.fromkeys(uris)))
        agent = {"User-Agent": f"coreason-client/{__version__}"}
        return merged_headers(agent, trace_headers(self.headers), self.headers, own)

    def for_call(
        self, timeout: float | TimeoutLike | None = None, headers: Mapping[str, str] | None = None
    ) -> "Settings":
        """Return the settings of one call: its own timeout, and headers over those of the client.

        Raises:
            ValueError, TypeError: they cannot be used.
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


class Call(Protocol):
    """One request to an agent, and how what comes back is read."""

    request: Request

    @property
    def operation(self) -> Operation: ...
    @property
    def channel(self) -> "Channel": ...

    def answer(self, body: bytes) -> Any:
        """Read a complete body; raises what it says."""

    def event(self, data: bytes) -> Event:
        """Read the data of one event of a stream; raises what it says."""

    def refusal(self, head: ResponseHead, body: bytes) -> A2AError:
        """Return the error for a status that is no success."""

    def asks_otherwise(self, head: ResponseHead, error: A2AError) -> bool:
        """Say whether the agent should be asked again in another manner, and remember it."""


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
    ) -> Call:
        """Make a call; `params` have the shape of 1.0, `settings` replace those of the channel."""


# Errors


def json_error(what: str, body: bytes, error: Exception) -> A2AJSONError:
    """Return the error for a body that is not what was expected.

    Raise it from None: the error below it repeats what the agent sent, which may be a key.
    """
    words = explain(error) if isinstance(error, ValidationError) else str(error)
    return A2AJSONError(f"{what} is not valid: {words}", body=body[:_LONGEST_BODY_KEPT])


def json_rpc_error(error: object, **fields: Any) -> A2AJSONRPCError | None:
    """Return the exception for a JSON-RPC error object, None where it is no such object."""
    if not isinstance(error, dict):
        return None
    code = error.get("code")
    if not isinstance(code, int) or isinstance(code, bool):
        return None
    kind = ERRORS_BY_CODE.get(code, A2AJSONRPCError)
    return kind(str(error.get("message", "")), code=code, data=error.get("data"), **fields)


def status_error(error: object, **fields: Any) -> A2AJSONRPCError | None:
    """Return the exception for a `google.rpc.Status` that the protocol has a name for."""
    if not isinstance(error, dict):
        return None
    details = error.get("details")
    kind = ERRORS_BY_REASON.get(reason_of(details) or "")
    if kind is None and isinstance(word := error.get("status"), str):
        kind = ERRORS_BY_STATUS.get(word)
    return None if kind is None else kind(str(error.get("message", "")), data=details, **fields)


def http_error(request: Request, head: ResponseHead, body: bytes, typed: Any) -> A2AError:
    """Return the error for a refusal; `typed` makes the protocol's own of an error object."""
    fields: dict[str, Any] = {
        "status": head.status,
        "headers": head.headers,
        "body": body[:_LONGEST_BODY_KEPT],
        "retry_after": retry_after(head.headers, time.time),
    }
    try:
        problem = from_json(body)
    except ValueError:
        problem = None
    problem = problem if isinstance(problem, dict) else {}
    own: A2AError | None = typed(problem.get("error"), **fields)
    if own is not None:
        return own
    words = f"{request.method} {shown(request.url)} was answered with HTTP {head.status}"
    message = problem_message(problem)
    return A2AHTTPError(f"{words}: {message}" if message else words, **fields)


def connection_error(
    request: Request, failure: TransportFailure, attempts: int
) -> A2AConnectionError:
    """Return the error for an exchange without an answer."""
    kind = A2ATimeoutError if failure.kind in TIMEOUT_FAILURES else A2AConnectionError
    error = kind(f"no answer to {request.method} {shown(request.url)}: {failure}")
    error.attempts = attempts
    error.__cause__ = failure.__cause__ or failure
    return error


def stream_closed(
    cause: str,
    error: Exception | None = None,
    failures: int = 0,
    server_delay: float | None = None,
) -> A2AStreamClosedError:
    """Return the error for a stream that cannot go on.

    `error` is what closed it; `failures` are the connections in a row that brought nothing.
    """
    words = f"the stream closed before its task ended: {cause}"
    if failures > 1:
        words = f"{words} ({failures} connections in a row brought nothing)"
    fields: dict[str, Any] = {"retry_after": server_delay}
    if isinstance(error, A2AError):
        fields |= {"status": error.status, "headers": error.headers, "body": error.body}
    closed = A2AStreamClosedError(words, **fields)
    closed.__cause__ = error if error is None else error.__cause__ or error
    return closed


def unreached(failure: TransportFailure) -> bool:
    """Return True if the request was never sent, so that another interface may be used."""
    return failure.kind in UNSENT_FAILURES


def checked_url(url: str, argument: str = "url") -> str:
    """Return a URL that an agent or a card can be called at; `argument` is where it comes from.

    Raises:
        ArgumentError: it cannot be called, with the reason.
        TypeError: it is not a string.
    """
    check_url(url, argument, credentials_go_into="auth")
    return url
