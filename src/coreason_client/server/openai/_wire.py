"""What both APIs of OpenAI have in common: refusals, the pieces of the text, citations. No I/O."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json
from starlette.responses import JSONResponse, Response

from ..answer._writer import Writer
from ..http._problems import Problem

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


REWOUND: Final = {
    "code": "rewound",
    "message": "The agent was restarted and takes back words that were sent, which this API cannot "
    "do: ask again without stream.",
}
"""The error for a reader of a stream with a REWIND that another request has allowed."""


class TextWriter(Writer):
    """A writer that keeps the text, because its API returns the whole answer too."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: list[bytes] = []  # the pieces of the text, or of its open part

    @property
    def _position(self) -> int:
        return len(self._texts)

    def _length(self) -> int:
        """Return the number of characters of the pieces of text."""
        return sum(map(length_of, self._texts))

    def _text(self) -> str:
        return "".join(from_json(b"[%b]" % b",".join(self._texts)))


def length_of(text: bytes) -> int:
    """Return the number of characters of a text as JSON."""
    if text.isascii() and b"\\" not in text:
        return len(text) - 2
    return len(from_json(text))


def annotation(source: dict[str, Any], position: int) -> dict[str, Any]:
    """Return a source as a citation at a position of the text."""
    return {
        "url": source["uri"],
        "title": source["title"],
        "start_index": position,
        "end_index": position,
    }
