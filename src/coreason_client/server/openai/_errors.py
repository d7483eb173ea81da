"""Refusals in the shape of OpenAI. No I/O."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from ..http._problems import Problem

__all__ = [
    "error_object",
    "error_response",
    "failed_answer",
    "input_not_stored",
    "unknown_response",
]

_TYPES: Final[Mapping[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
# The SDKs repeat a request after these, although a repetition cannot help.
_FINAL: Final = frozenset((400, 404, 405, 409, 410, 413, 415, 421, 422, 431, 500, 501))
_LONGEST_WAIT: Final = 60  # seconds; with a longer one the SDKs give up at once


def unknown_response(param: str = "response_id") -> Problem:
    """Return the refusal of a response that does not exist, was deleted or is somebody else's."""
    detail = "There is no such response: it was never made here, has expired or was deleted."
    return Problem(404, "response-not-found", detail, errors=[{"loc": [param], "msg": detail}])


def failed_answer(error: dict[str, Any]) -> Problem:
    """Return the refusal for an answer that ended with an error."""
    status = 400 if error["code"] == "rejected" else 500
    return Problem(status, error["code"], error["message"], reason="the agent ended with an error")


def input_not_stored() -> Problem:
    """Return the refusal to list the input of a response."""
    detail = (
        "The input of this response is not stored: it runs in another process, belongs to a "
        "conversation, or was sent with store: false."
    )
    return Problem(404, "input-not-stored", detail)


def error_object(message: str, code: str, *, status: int, param: str | None = None) -> Any:
    """Return an error object of OpenAI; `code` is the name of our problem."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"message": message, "type": kind, "param": param, "code": code.replace("-", "_")}


def error_response(problem: Problem) -> Response:
    """Return a refusal as a response."""
    status = 400 if problem.status == 422 else problem.status
    where = problem.errors[0]["loc"] if problem.errors else ()
    param = ".".join(map(str, where)) or None
    headers = dict(problem.headers or {})
    if status in _FINAL:
        headers["x-should-retry"] = "false"
    if headers.get("Retry-After", "").isdecimal():
        headers["Retry-After"] = str(min(int(headers["Retry-After"]), _LONGEST_WAIT))
    error = error_object(problem.detail, problem.slug, status=status, param=param)
    return JSONResponse({"error": error}, status_code=status, headers=headers)
