"""Refusals: problem documents (RFC 9457) without values of the request, limits, and log lines."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from .._options import Options
from ..engine._packets import CONVERSATION_BUSY
from ..errors import LogError, LogUnavailable, PositionGone, RequestConflict, UnknownStream
from ..observe import _log_lines
from ..observe._log_lines import LineLimit
from ..observe._metrics import Metrics
from ._rate_limit import retry_after

_MAX_ERRORS = 20
# Listing an error costs microseconds and kilobytes, and a body can have millions of wrong items.
_MAX_LISTED = 1000
_TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Unprocessable content",
    429: "Too many requests",
    431: "Request header fields too large",
    503: "Service unavailable",
}
_LOG_ERRORS: dict[type[Exception], tuple[int, str]] = {
    UnknownStream: (404, "stream-not-found"),
    RequestConflict: (409, "request-conflict"),
    PositionGone: (410, "position-gone"),
    LogUnavailable: (503, "log-unavailable"),
}
# For these types the messages of pydantic repeat the value.
_SAFE_MESSAGES = {
    "union_tag_invalid": "The 'type' is unknown",
    "json_invalid": "The body is not valid JSON",
    "uuid_parsing": "Input should be a valid UUID",
}


class Problem(Exception):
    """A refusal that is sent to the client; only the operator sees `reason`."""

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.errors = errors
        self.headers = headers
        self.reason = reason

    def response(self) -> JSONResponse:
        """Return the problem document as a response."""
        document: dict[str, Any] = {
            "type": f"urn:coreason:problem:{self.slug}",
            "title": _TITLES.get(self.status, "Error"),
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = list(self.errors)
        return JSONResponse(
            document,
            status_code=self.status,
            headers=self.headers,
            media_type="application/problem+json",
        )


def validation_problem(error: ValidationError) -> Problem:
    """Return the fields of a body that are wrong, without their values."""
    if (count := error.error_count()) > _MAX_LISTED:
        words = f"{count} values are wrong, too many to list"
        return Problem(
            422, "invalid-request", f"the body: {words}", errors=[{"loc": [], "msg": words}]
        )
    found = error.errors(include_url=False, include_input=False, include_context=False)
    errors = [
        {"loc": list(item["loc"]), "msg": _SAFE_MESSAGES.get(item["type"], item["msg"])}
        for item in found[:_MAX_ERRORS]
    ]
    where = ".".join(map(str, errors[0]["loc"])) or "the body"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Problem(422, "invalid-request", f"{where}: {errors[0]['msg']}{more}", errors=errors)


def resume_conflict(difference: str) -> Problem:
    """Return the refusal to resume a stream for a request that did not open it."""
    return Problem(
        409,
        "request-conflict",
        f"The stream was opened by a request with {difference}. Resume with the request that "
        "opened the stream (its request_id and body): save both with `stream.bookmark()`.",
    )


def as_problem(error: Exception) -> Problem:
    """Convert an error of this package, the log or the router to a problem."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, LogError):
        return _log_problem(error)
    assert isinstance(error, HTTPException)  # noqa: S101 - the only other registered type
    slug = _TITLES.get(error.status_code, "error").lower().replace(" ", "-")
    return Problem(error.status_code, slug, error.detail, headers=error.headers)


def _log_problem(error: LogError) -> Problem:
    status, slug = _LOG_ERRORS.get(type(error), (503, "log-unavailable"))
    # Clients must not see details of the store.
    detail = "The log of this server is not available." if status == 503 else str(error)
    headers = {"Retry-After": "1"} if status == 503 else None
    return Problem(status, slug, detail, headers=headers, reason=str(error))


# The refusals of requests that exceed a limit, the same for all protocols. No I/O.

_OWN = (
    "This agent is answering in the conversation itself, so its message would wait for its own end."
)
_SOON = {"Retry-After": "1"}


def too_many_readers(options: Options) -> Problem:
    """Return the refusal of another reader."""
    return Problem(
        429,
        "too-many-readers",
        f"This caller has {options.max_readers_per_key} open responses, which is the limit.",
        headers=_SOON,
    )


def too_many_streams(options: Options) -> Problem:
    """Return the refusal of another running stream."""
    return Problem(
        429,
        "too-many-streams",
        f"This caller has {options.max_streams_per_key} running streams, which is the limit.",
        headers=_SOON,
    )


def too_many_requests(options: Options, wait: int) -> Problem:
    """Return the refusal of another request within `wait` nanoseconds."""
    return Problem(
        429,
        "too-many-requests",
        f"This caller may send {options.max_requests_per_minute} requests a minute.",
        headers={"Retry-After": retry_after(wait)},
    )


def question_not_open() -> Problem:
    """Return the refusal of an answer."""
    detail = (
        "The question is not open: it was asked in another conversation, was already answered, or "
        "the conversation went on without an answer."
    )
    return Problem(409, "question-not-open", detail)


def conversation_busy(*, is_own: bool = False) -> Problem:
    """Return the refusal of a message while an earlier one is being answered.

    `is_own` is True if the agent that answers has sent it.
    """
    return Problem(409, "conversation-busy", _OWN if is_own else CONVERSATION_BUSY.message)


def shutting_down() -> Problem:
    """Return the refusal of a new stream during a drain."""
    return Problem(503, "shutting-down", "The server is shutting down.", headers=_SOON)


# Refusals: sent as problem documents, counted and logged.


def is_openai_path(path: str) -> bool:
    """Return True for a path of the OpenAI-compatible API."""
    is_assist = path == "/v1/assist" or path.startswith("/v1/assist/")
    return path.startswith("/v1/") and not is_assist


PRINCIPAL: Final = "coreason.principal"
"""The key in the scope of a request for its principal, for the log line of a refusal."""

# Clients can cause any number of refusals, so the log lines of each kind are limited.
_LINES_PER_SECOND: Final = 10
_MAX_KINDS: Final = 100


class Refusals:
    """Handles the refusals of one application."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self.openai: Callable[[Problem], Response] | None = None
        """Makes the responses for the paths of the OpenAI-compatible API, if it is served."""
        self._metrics = metrics
        self._clock = clock
        self._limits: dict[tuple[str, str], LineLimit] = {}

    async def handle(self, request: Request, error: Exception) -> Response:
        """Respond to a request that was refused, as an exception handler."""
        return self.respond(error, request.scope)

    def respond(self, error: Exception, scope: Scope) -> Response:
        """Count and log a refusal, and return the response in the form of its protocol."""
        problem = self.record(error, scope.get(PRINCIPAL))
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if self.openai is not None and is_openai_path(path):
            return self.openai(problem)
        return problem.response()

    def record(self, error: Exception, principal: str | None) -> Problem:
        """Count and log a refusal, and return it as a problem."""
        problem = as_problem(error)
        self._metrics.refused(problem.slug)
        suppressed = self._limit(problem).allow(self._clock())
        if suppressed is not None:
            _log_lines.refused(
                problem.status,
                problem.slug,
                problem.detail,
                principal,
                problem.reason,
                suppressed,
            )
        return problem

    def _limit(self, problem: Problem) -> LineLimit:
        # Failures of the server are limited for each reason, so every reason is logged.
        kind = (problem.slug, problem.reason if problem.status >= 500 else "")
        limit = self._limits.get(kind)
        if limit is None:
            if len(self._limits) >= _MAX_KINDS:  # reasons may contain numbers that never repeat
                self._limits.clear()
            limit = self._limits[kind] = LineLimit(_LINES_PER_SECOND)
        return limit
