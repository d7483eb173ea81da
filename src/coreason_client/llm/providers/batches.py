"""The wire formats of batches: OpenAI, Anthropic and Gemini. Pure.

* OpenAI reads the requests from a file of JSON lines and writes two: the answers, and the errors.
* Anthropic gets the requests in one body, and has the results as JSON lines at a separate URL.
* Gemini gets the requests in one body. A batch is a long-running operation, whose JSON has the
  results at the end; its numbers are text.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from .._answer import Malformed
from .._json import clean_text, count, encode, items, mapping, text
from ..types import BatchState, BatchStatus

__all__ = [
    "BATCHES",
    "BatchFormat",
    "Bodies",
    "Created",
    "FoundBatch",
    "ResultLine",
    "check_id",
    "endpoint_of",
    "input_file",
]

_ID = re.compile(r"(?:batches/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,255}", re.ASCII)
_WINDOW = "24h"  # the only one of OpenAI
_LABEL = "coreason-client"  # Gemini requires a name, which need not be unique
_PROVIDER_FAILED = frozenset({"api_error", "overloaded_error", "timeout_error"})
# The end of a state; any other one means that the batch is running.
_STATES: Mapping[str, BatchState] = {
    "completed": "completed",
    "succeeded": "completed",
    "failed": "failed",
    "expired": "expired",
    "cancelled": "cancelled",
}
# Why a request has no response.
_UNPROCESSED = {
    "batch_expired": "expired",
    "batch_cancelled": "cancelled",
    "expired": "expired",
    "canceled": "cancelled",
    "CANCELLED": "cancelled",
}
_GRPC_STATUSES: tuple[str, ...] = (
    *("", "CANCELLED", "", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", ""),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "", "", "", "", "INTERNAL", "UNAVAILABLE"),
)


Bodies: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The bodies of the requests, by their ids."""

Created: TypeAlias = tuple[str, Mapping[str, Any]]
"""The URL and the body of a request that creates a batch."""


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """A batch as its provider describes it; `files` are the URLs of results, or `inline` has them.

    `endpoint` is the path of its requests, empty if the provider has only one.
    """

    id: str
    status: BatchStatus
    files: Sequence[str] = ()
    inline: Sequence[Any] = ()
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class ResultLine:
    """The result of one request: the status and the body of its response.

    `unprocessed` is "expired" or "cancelled" if there is no response.
    """

    id: str
    status: int = 200
    body: Any = None
    unprocessed: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def check_id(id_: Any) -> str:
    """Return the provider's id of a batch, which becomes a part of URLs.

    Raises:
        Malformed: it is not an id.
    """
    if not isinstance(id_, str) or not _ID.fullmatch(id_):
        raise Malformed("the batch has no usable id")
    return id_


class BatchFormat(ABC):
    """One wire format.

    Attributes:
        has_input_file: True if the requests are uploaded as a file first.
        folder: the path of batches below the base URL.
        cancel: the end of the URL that cancels one.
    """

    has_input_file: ClassVar[bool] = False
    folder: ClassVar[str] = "/batches/"
    cancel: ClassVar[str] = "/cancel"

    @abstractmethod
    def create(self, base: str, single: str, bodies: Bodies, file: str) -> Created:
        """Return the request that creates a batch.

        `single` is the URL of a single request, `file` the id of the input file.
        """

    def url(self, base: str, id_: str) -> str:
        """Return the URL of a batch."""
        return f"{base}{self.folder}{id_}"

    @abstractmethod
    def read(self, base: str, reply: Mapping[str, Any]) -> FoundBatch:
        """Read a batch.

        Raises:
            Malformed: the reply is not a batch.
        """

    @abstractmethod
    def result(self, line: Mapping[str, Any]) -> ResultLine:
        """Read the result of one request."""


class _OpenAI(BatchFormat):
    has_input_file = True

    def create(self, base: str, single: str, bodies: Bodies, file: str) -> Created:
        created = {"input_file_id": file, "endpoint": endpoint_of(single)}
        return f"{base}/batches", {**created, "completion_window": _WINDOW}

    def read(self, base: str, reply: Mapping[str, Any]) -> FoundBatch:
        counts = mapping(reply.get("request_counts"))
        status = _status(
            _STATES.get(text(reply.get("status")), "running"),
            *(counts.get(name) for name in ("total", "completed", "failed")),
        )
        errors = [mapping(one) for one in items(mapping(reply.get("errors")).get("data"))]
        if status["state"] == "failed" and errors:
            status["reason"] = clean_text(text(errors[0].get("message")))
        found = [reply.get(name) for name in ("output_file_id", "error_file_id")]
        files = [f"{base}/files/{check_id(id_)}/content" for id_ in found if id_]
        return FoundBatch(check_id(reply.get("id")), status, files, (), text(reply.get("endpoint")))

    def result(self, line: Mapping[str, Any]) -> ResultLine:
        id_, response = text(line.get("custom_id")), mapping(line.get("response"))
        if response:
            status = count(response.get("status_code")) or 200
            headers = {"x-request-id": text(response.get("request_id"))}
            return ResultLine(id_, status, response.get("body"), headers=headers)
        error = mapping(line.get("error"))
        return _failed(id_, text(error.get("code")), {"error": dict(error)})


class _Anthropic(BatchFormat):
    folder = "/messages/batches/"

    def create(self, base: str, single: str, bodies: Bodies, file: str) -> Created:
        listed = [{"custom_id": id_, "params": body} for id_, body in bodies.items()]
        return f"{single}/batches", {"requests": listed}

    def read(self, base: str, reply: Mapping[str, Any]) -> FoundBatch:
        id_ = check_id(reply.get("id"))
        numbers = mapping(reply.get("request_counts"))
        counts = {name: count(value) or 0 for name, value in numbers.items()}
        state: BatchState = "running"
        if reply.get("processing_status") == "ended":
            state = "expired" if counts.get("expired") else "completed"
            state = "cancelled" if reply.get("cancel_initiated_at") else state
        failed = sum(counts.get(name, 0) for name in ("errored", "canceled", "expired"))
        status = _status(state, sum(counts.values()), counts.get("succeeded"), failed)
        # Not the URL in the reply: the key is sent to no other host.
        files = [] if state == "running" else [f"{self.url(base, id_)}/results"]
        return FoundBatch(id_, status, files)

    def result(self, line: Mapping[str, Any]) -> ResultLine:
        id_, result = text(line.get("custom_id")), mapping(line.get("result"))
        if result.get("type") == "succeeded":
            return ResultLine(id_, 200, result.get("message"))
        error = mapping(result.get("error"))
        kind = text(mapping(error.get("error")).get("type"))
        return _failed(id_, kind or text(result.get("type")), dict(error))


class _Gemini(BatchFormat):
    folder = "/"  # an id begins with `batches/`
    cancel = ":cancel"

    def create(self, base: str, single: str, bodies: Bodies, file: str) -> Created:
        listed = [{"request": body, "metadata": {"key": id_}} for id_, body in bodies.items()]
        batch = {"displayName": _LABEL, "inputConfig": {"requests": {"requests": listed}}}
        return f"{single.rpartition(':')[0]}:batchGenerateContent", {"batch": batch}

    def read(self, base: str, reply: Mapping[str, Any]) -> FoundBatch:
        batch = mapping(reply.get("metadata"))
        stats = mapping(batch.get("batchStats"))
        names = ("requestCount", "successfulRequestCount", "failedRequestCount")
        end = text(batch.get("state")).rpartition("_")[2].lower()
        state = _STATES.get(end, "running")
        error = mapping(reply.get("error"))
        if error and state == "running":
            state = "failed"
        status = _status(state, *(_number(stats.get(name)) for name in names))
        if error:
            status["reason"] = clean_text(text(error.get("message")))
        output = mapping(reply.get("response")) or mapping(batch.get("output"))
        inline = items(mapping(output.get("inlinedResponses")).get("inlinedResponses"))
        return FoundBatch(check_id(reply.get("name")), status, inline=inline)

    def result(self, line: Mapping[str, Any]) -> ResultLine:
        id_ = text(mapping(line.get("metadata")).get("key"))
        error = mapping(line.get("error"))
        if not error:
            return ResultLine(id_, 200, line.get("response"))
        number = count(error.get("code")) or 0
        known = _GRPC_STATUSES[number] if number < len(_GRPC_STATUSES) else ""
        status = text(error.get("status")) or known
        return _failed(id_, status, {"error": {**error, "status": status}})


def _failed(id_: str, code: str, body: Any) -> ResultLine:
    status = 500 if code in _PROVIDER_FAILED else 400
    return ResultLine(id_, status, body, _UNPROCESSED.get(code, ""))


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value) else value


def _status(state: BatchState, total: Any, succeeded: Any, failed: Any) -> BatchStatus:
    return {
        "state": state,
        "total": count(total) or 0,
        "succeeded": count(succeeded) or 0,
        "failed": count(failed) or 0,
    }


BATCHES: Mapping[str, BatchFormat] = {
    "openai": _OpenAI(),
    "anthropic": _Anthropic(),
    "gemini": _Gemini(),
}
"""The formats, by the name of the provider."""


def input_file(bodies: Bodies, endpoint: str) -> bytes:
    """Return the file of requests for OpenAI.

    Raises:
        ValueError: a request cannot be encoded.
    """
    common = {"method": "POST", "url": endpoint}
    lines = ({"custom_id": id_, **common, "body": body} for id_, body in bodies.items())
    return b"".join(encode(line) + b"\n" for line in lines)


def endpoint_of(single: str) -> str:
    """Return the path by which OpenAI knows the API of a URL, whatever the base URL is."""
    return "/v1/responses" if single.endswith("/responses") else "/v1/chat/completions"
