"""gRPC exchanges in the form of HTTP responses, which all rules of the client work with. Pure.

* A unary response is a response with status 200 whose body is the serialised message.
* A stream is an event stream: the data of an event is a serialised message in base64, or a JSON
  error object, which begins with a brace.
* A status that is an answer of the agent is a response with the matching HTTP status and the error
  body of HTTP+JSON. A status that says that there was no answer is a `TransportFailure`.
* In the middle of a stream, a status without a reason that means an interruption is a failure too,
  also if it asks for a delay: a server that shuts down ends its streams like this.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pydantic_core import from_json, to_json

from ..._http._types import FailureKind, Headers, Request, ResponseHead, TransportFailure
from ..errors import reason_of
from ._convert import JSON
from ._methods import GrpcMethod
from ._status import DETAILS_KEY, GrpcStatus, error_object, http_status, retry_seconds

__all__ = [
    "STREAM_HEAD",
    "GrpcRequest",
    "answer_in",
    "delay_field",
    "error_event",
    "event_content",
    "message_event",
    "query_failure",
    "status_from",
    "stream_failure",
    "unary_head",
]


@dataclass(slots=True)
class GrpcRequest(Request):
    """A request over gRPC; its content is the serialised message.

    The URL is the one that gRPC itself uses: the origin and the path of the method.
    `max_message_bytes` is the largest message that is accepted.
    """

    rpc: GrpcMethod | None = None
    max_message_bytes: int = 0


STREAM_HEAD: Final = ResponseHead(200, Headers([("content-type", "text/event-stream")]))
"""The head of a stream whose first message has arrived."""

# These say that the connection is gone, or that the server has stopped the call.
_NO_ANSWER = frozenset({"UNAVAILABLE", "CANCELLED"})
# In the middle of a stream these do not say anything about the task.
_INTERRUPTIONS = frozenset({"UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED", "ABORTED"})
# gRPC reports a message beyond the limit with the same code as a server without resources.
_TOO_LARGE = "larger than max"


def unary_head(body: bytes) -> ResponseHead:
    """Return the head of a unary response."""
    fields = (("content-type", "application/grpc+proto"), ("content-length", str(len(body))))
    return ResponseHead(200, Headers(fields))


def message_event(message: bytes) -> bytes:
    """Return a message of a stream as an SSE event."""
    return b"data: " + b64encode(message) + b"\n\n"


def error_event(status: GrpcStatus) -> bytes:
    """Return the status that ended a stream as an SSE event."""
    return b"data: " + to_json(error_object(status)) + b"\n\n"


def event_content(data: bytes) -> bytes | JSON:
    """Return the message, or the error object, in the data of an event.

    Raises:
        ValueError: it is neither.
    """
    if data.startswith(b"{"):
        error: JSON = from_json(data)
        return error
    try:
        return b64decode(data, validate=True)
    except Base64Error as error:
        raise ValueError(str(error)) from None


def status_from(
    code: str, message: str | None, metadata: Iterable[tuple[str, str | bytes]] | None
) -> GrpcStatus:
    """Return the status with the details in the trailing metadata of a call."""
    details = (value for key, value in metadata or () if key == DETAILS_KEY)
    found = next((value for value in details if isinstance(value, bytes)), b"")
    return GrpcStatus(code, message or "", found)


def _failure(status: GrpcStatus, no_answer: Iterable[str]) -> TransportFailure | None:
    text = f"{status.code}: {status.message}" if status.message else status.code
    if status.code == "DEADLINE_EXCEEDED":
        return TransportFailure(FailureKind.TIMEOUT, text)
    if status.code == "RESOURCE_EXHAUSTED" and _TOO_LARGE in status.message:
        return TransportFailure(FailureKind.TOO_LARGE, text)
    if status.code in no_answer:
        return TransportFailure(FailureKind.BROKEN, text)
    return None


def stream_failure(status: GrpcStatus) -> TransportFailure | None:
    """Return the failure for a status in the middle of a stream; None if it is an answer."""
    is_answer = reason_of(error_object(status).get("details")) is not None
    return _failure(status, () if is_answer else _INTERRUPTIONS)


def delay_field(status: GrpcStatus) -> bytes:
    """Return the delay that a status asks for as a field of SSE; empty if it asks for none."""
    delay = retry_seconds(error_object(status))
    return b"" if delay is None else b"retry: %d\n" % (delay * 1000)


def answer_in(status: GrpcStatus) -> tuple[ResponseHead, bytes]:
    """Return the head and the body for a status before the first message.

    Raises:
        TransportFailure: it says that there was no answer.
    """
    failure = _failure(status, () if status.details else _NO_ANSWER)
    if failure is not None:
        raise failure
    error = error_object(status)
    fields = [("content-type", "application/json")]
    if (delay := retry_seconds(error)) is not None:
        fields.append(("retry-after", f"{delay:g}"))
    return ResponseHead(http_status(status.code), Headers(fields)), to_json({"error": error})


def query_failure() -> TransportFailure:
    """Return the failure for a credential in the query of the URL, which gRPC does not have."""
    return TransportFailure(
        FailureKind.REQUEST,
        "the card puts the credential into the query of the URL, which gRPC does not have",
    )
