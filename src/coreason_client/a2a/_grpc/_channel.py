"""The gRPC binding in both dialects: builds requests, parses responses and events. Pure.

gRPC exchanges have the form of HTTP responses, which all rules of the client work with:

* A unary response is a response with status 200 whose body is the serialised message.
* A stream is an event stream: the data of an event is a serialised message in base64, or a JSON
  error object, which begins with a brace.
* A status that is an answer of the agent is a response with the matching HTTP status and the error
  body of HTTP+JSON. A status that says that there was no answer is a `TransportFailure`.
* In the middle of a stream, a status without a reason that means an interruption is a failure too,
  also if it asks for a delay: a server that shuts down ends its streams like this.
"""

import time
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from ..._http._checks import shown
from ..._http._types import FailureKind, Headers, Request, ResponseHead, TransportFailure
from ..._retry import retry_after
from .._call import Settings, json_error
from .._dialects import V10, Dialect, Operation
from .._wire import FROM_PYTHON, event_of
from ..errors import (
    A2AEmptyResultError,
    A2AError,
    A2AHTTPError,
    A2ASSEParseError,
    InvalidParamsError,
    reason_of,
)
from ..types import Event, UnknownEvent
from ._messages import (
    JSON,
    GrpcMethod,
    message_type,
    methods_of,
    parse_message,
    to_json_object,
    to_message,
)
from ._status import (
    DETAILS_KEY,
    GrpcStatus,
    error_from_object,
    error_object,
    http_status,
    retry_seconds,
)


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


_MAX_BODY_KEPT = 65_536


class GrpcChannel:
    """An interface over gRPC in one dialect; `url` is that of `_address.grpc_url`."""

    def __init__(
        self, url: str, settings: Settings, tenant: str | None = None, dialect: Dialect = V10
    ) -> None:
        self.url = url
        self.dialect = dialect
        self._settings = settings
        self._tenant = tenant if dialect.has_tenants else None
        self._methods = methods_of(dialect.version)

    def call(
        self,
        operation: Operation,
        params: dict[str, Any],
        last_event_id: str | None = None,
        settings: Settings | None = None,
    ) -> "GrpcCall":
        """Build a call. There is no cursor over gRPC, so `last_event_id` is not used.

        Raises:
            UnsupportedOperationError: this dialect has no such operation.
            InvalidParamsError: a parameter cannot be sent.
        """
        rpc = self._methods.get(operation.name)
        if rpc is None:
            raise self.dialect.lacks(operation)
        encode = self.dialect.encode.get(operation.name)
        values = dict(params) if encode is None else encode(params)
        if self._tenant and not values.get("tenant"):
            values["tenant"] = self._tenant
        try:
            content = to_message(rpc.request, values).SerializeToString()
        except ValueError as error:
            raise InvalidParamsError(f"the parameters of {operation.name}: {error}") from None
        settings = settings or self._settings
        request = GrpcRequest(
            "POST",
            self.url + rpc.path,
            settings.sent_headers(self.dialect, operation, params),
            content,
            settings.stream if operation.streams else settings.unary,
            rpc=rpc,
            max_message_bytes=max(settings.max_body_bytes, settings.max_event_bytes),
        )
        return GrpcCall(self, request, operation, rpc)


class GrpcCall:
    """One request, and the parsing of its response."""

    def __init__(
        self, channel: GrpcChannel, request: GrpcRequest, operation: Operation, rpc: GrpcMethod
    ) -> None:
        self.channel = channel
        self.request: Any = request  # a `Request`, as the protocol of calls requires
        self.operation = operation
        self._rpc = rpc
        self._type = message_type(rpc.response)

    def parse_response(self, body: bytes) -> Any:
        """Return the result in a serialised message.

        Raises:
            A2AEmptyResultError: a required result is missing.
            A2AJSONError: the body is not the expected result.
        """
        if self.operation.result == "nothing":
            return None
        try:
            return self._value(body)
        except (ValidationError, ValueError) as error:
            raise json_error(f"the response to {self.operation.name}", body, error) from None

    def parse_event(self, data: bytes) -> Event:
        """Return the event in the data of a streamed response.

        Raises:
            A2AError: the status that ended the stream.
            A2AEmptyResultError: it is empty.
            A2ASSEParseError: it is not an event.
        """
        try:
            content = event_content(data)
            if isinstance(content, dict):
                raise self._error(content)
            event: Event = self._value(content)
        except (ValidationError, ValueError) as error:
            message = str(json_error("an event of the stream", data, error))
            raise A2ASSEParseError(message, data) from None
        return event

    def response_error(self, head: ResponseHead, body: bytes) -> A2AError:
        """Return the error for a response whose status is not 2xx."""
        try:
            found = from_json(body)
        except ValueError:
            found = None
        error = found.get("error") if isinstance(found, dict) else None
        return self._error(
            error if isinstance(error, dict) else {},
            status=head.status,
            headers=head.headers,
            body=body[:_MAX_BODY_KEPT],
            retry_after=retry_after(head.headers, time.time),
        )

    def try_other_verb(self, head: ResponseHead, error: A2AError) -> bool:
        """Return False: gRPC has no verbs."""
        return False

    def _error(self, error: dict[str, Any], **fields: Any) -> A2AError:
        found = error_from_object(error, **fields)
        if found is not None:
            return found
        code, detail = error.get("status", "UNKNOWN"), error.get("message")
        message = f"{shown(self.request.url)} was answered with the gRPC status {code}"
        fields.setdefault("status", error.get("code"))
        return A2AHTTPError(f"{message}: {detail}" if detail else message, **fields)

    def _value(self, data: bytes) -> Any:
        kind = self.operation.result
        value = to_json_object(parse_message(self._type, data))
        if not value and data and kind == "event":
            return UnknownEvent()  # only fields of a later version
        if not value and kind not in ("tasks", "pushes"):
            raise A2AEmptyResultError(f"the response to {self.operation.name} contains no result")
        typed = FROM_PYTHON[kind](self.channel.dialect.decoded(kind, value))
        return event_of(typed) if kind == "event" else typed
