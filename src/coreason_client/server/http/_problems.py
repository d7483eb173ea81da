"""Refusals as problem documents (RFC 9457), which never repeat the values of the request."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from ..errors import LogError, LogUnavailable, PositionGone, RequestConflict, UnknownStream

__all__ = ["Problem", "as_problem", "resume_conflict", "validation_problem"]

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
