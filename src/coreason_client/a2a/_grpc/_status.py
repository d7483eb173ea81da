"""The errors of A2A as gRPC statuses, in both directions. Pure.

* An error has a status code and a message, and in the metadata `grpc-status-details-bin` a
  `google.rpc.Status` whose `ErrorInfo` has the reason, such as TASK_NOT_FOUND.
* The reason identifies the error. Without a known reason the status code does, as far as it is
  conclusive.
* Agents of 0.3 send no details: their message begins with the name of the error.
* Inside the client an error has the form of HTTP+JSON, `{"code", "status", "message", "details"}`,
  so every rule about errors applies to gRPC too.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError  # type: ignore[import-untyped]

from .. import errors
from .._dialects import ERRORS_BY_REASON
from ..errors import A2AJSONRPCError, reason_of
from ._messages import JSON, message_type, parse_message, to_json_object

DETAILS_KEY = "grpc-status-details-bin"
DOMAIN = "a2a-protocol.org"

# The number of a status code, and the HTTP status that stands for it.
_CODES: Mapping[str, tuple[int, int]] = {
    "OK": (0, 200),
    "CANCELLED": (1, 499),
    "UNKNOWN": (2, 500),
    "INVALID_ARGUMENT": (3, 400),
    "DEADLINE_EXCEEDED": (4, 504),
    "NOT_FOUND": (5, 404),
    "ALREADY_EXISTS": (6, 409),
    "PERMISSION_DENIED": (7, 403),
    "RESOURCE_EXHAUSTED": (8, 429),
    "FAILED_PRECONDITION": (9, 400),
    "ABORTED": (10, 409),
    "OUT_OF_RANGE": (11, 400),
    "UNIMPLEMENTED": (12, 501),
    "INTERNAL": (13, 500),
    "UNAVAILABLE": (14, 503),
    "DATA_LOSS": (15, 500),
    "UNAUTHENTICATED": (16, 401),
}
STATUS_NUMBERS: Mapping[str, int] = {name: number for name, (number, _) in _CODES.items()}
"""The numbers of the status codes by name."""

_STATUS_BY_ERROR: Mapping[type[A2AJSONRPCError], str] = {
    errors.JSONParseError: "INVALID_ARGUMENT",
    errors.InvalidRequestError: "INVALID_ARGUMENT",
    errors.MethodNotFoundError: "UNIMPLEMENTED",
    errors.InvalidParamsError: "INVALID_ARGUMENT",
    errors.InternalError: "INTERNAL",
    errors.TaskNotFoundError: "NOT_FOUND",
    errors.TaskNotCancelableError: "FAILED_PRECONDITION",
    errors.PushNotificationNotSupportedError: "FAILED_PRECONDITION",
    errors.UnsupportedOperationError: "FAILED_PRECONDITION",
    errors.ContentTypeNotSupportedError: "INVALID_ARGUMENT",
    errors.InvalidAgentResponseError: "INTERNAL",
    errors.ExtendedAgentCardNotConfiguredError: "FAILED_PRECONDITION",
    errors.ExtensionSupportRequiredError: "FAILED_PRECONDITION",
    # Specification 1.0.0 says UNIMPLEMENTED, 1.0.1 FAILED_PRECONDITION. The conformance kit tests
    # the first one; a client recognises the error by its reason.
    errors.VersionNotSupportedError: "UNIMPLEMENTED",
}
# Only codes that mean one error: FAILED_PRECONDITION may be any of six.
_ERROR_BY_STATUS: Mapping[str, type[A2AJSONRPCError]] = {
    "INVALID_ARGUMENT": errors.InvalidParamsError,
    "OUT_OF_RANGE": errors.InvalidParamsError,
    "NOT_FOUND": errors.TaskNotFoundError,
    "UNIMPLEMENTED": errors.MethodNotFoundError,
    "UNKNOWN": errors.InternalError,
    "INTERNAL": errors.InternalError,
    "DATA_LOSS": errors.InternalError,
}
_REASONS: Mapping[type[A2AJSONRPCError], str] = {
    **{kind: reason for reason, kind in ERRORS_BY_REASON.items()},
    errors.JSONParseError: "PARSE_ERROR",
    errors.InvalidRequestError: "INVALID_REQUEST",
    errors.MethodNotFoundError: "METHOD_NOT_FOUND",
    errors.InvalidParamsError: "INVALID_PARAMS",
    errors.InternalError: "INTERNAL_ERROR",
}
_BY_REASON = {reason: kind for kind, reason in _REASONS.items()}
_BY_NAME: Mapping[str, type[A2AJSONRPCError]] = {
    **{kind.__name__: kind for kind in _REASONS},
    "AuthenticatedExtendedCardNotConfiguredError": errors.ExtendedAgentCardNotConfiguredError,
}
_TYPE_PREFIX = "type.googleapis.com/"
_DETAILS = ("google.rpc.ErrorInfo", "google.rpc.BadRequest", "google.rpc.RetryInfo")


@dataclass(frozen=True, slots=True)
class GrpcStatus:
    """A status that ends a call.

    Attributes:
        code: the name of the status code, such as "NOT_FOUND".
        message: the text of the error.
        details: the value of the metadata `grpc-status-details-bin`; empty if there is none.
    """

    code: str
    message: str
    details: bytes = b""


# From an error to a status


def status_from_error(error: A2AJSONRPCError) -> GrpcStatus:
    """Return the status for an error, with an `ErrorInfo` and the known details of its data."""
    kind = next((found for found in type(error).__mro__ if found in _REASONS), None)
    code = _STATUS_BY_ERROR.get(kind or errors.InternalError, "INTERNAL")
    status = message_type("google.rpc.Status")()
    status.code, status.message = STATUS_NUMBERS[code], error.message
    if reason_of(error.data) is None:
        reason = _REASONS.get(kind or errors.InternalError, "INTERNAL_ERROR")
        _add_detail(status, "google.rpc.ErrorInfo", {"reason": reason, "domain": DOMAIN})
    for detail in error.data if isinstance(error.data, list) else ():
        if isinstance(detail, dict):
            name = str(detail.get("@type", "")).rpartition("/")[2]
            _add_detail(status, name, {key: v for key, v in detail.items() if key != "@type"})
    return GrpcStatus(code, error.message, status.SerializeToString())


def status_with_delay(code: str, message: str, seconds: int | None) -> GrpcStatus:
    """Return a status that is not an error of A2A; `seconds` is when to retry, None if unknown."""
    if seconds is None:
        return GrpcStatus(code, message)
    status = message_type("google.rpc.Status")()
    status.code, status.message = STATUS_NUMBERS[code], message
    _add_detail(status, "google.rpc.RetryInfo", {"retryDelay": f"{seconds}s"})
    return GrpcStatus(code, message, status.SerializeToString())


def _add_detail(status: Any, name: str, value: JSON) -> None:
    """Add a detail of a known type; others are left out, because their fields are unknown."""
    if name not in _DETAILS:
        return
    try:
        message = ParseDict(value, message_type(name)(), ignore_unknown_fields=True)
    except ParseError:
        return
    status.details.add(type_url=_TYPE_PREFIX + name, value=message.SerializeToString())


# From a status to an error


def http_status(code: str) -> int:
    """Return the HTTP status that stands for a status code."""
    return _CODES.get(code, _CODES["UNKNOWN"])[1]


def error_object(status: GrpcStatus) -> JSON:
    """Return the error object of HTTP+JSON for a status."""
    found: JSON = {
        "code": http_status(status.code),
        "status": status.code,
        "message": status.message,
    }
    details = _details(status.details)
    return {**found, "details": details} if details else found


def _details(data: bytes) -> list[JSON]:
    """Return the details in the form of ProtoJSON; empty if the bytes cannot be parsed."""
    try:
        status = parse_message(message_type("google.rpc.Status"), data)
        return [_detail(found) for found in status.details]
    except ValueError:
        return []


def _detail(found: Any) -> JSON:
    name = found.type_url.rpartition("/")[2]
    if name not in _DETAILS:
        return {"@type": found.type_url, "value": b64encode(found.value).decode()}
    return {
        "@type": found.type_url,
        **to_json_object(parse_message(message_type(name), found.value)),
    }


def retry_seconds(error: JSON) -> float | None:
    """Return the delay that the `RetryInfo` of an error object asks for, in seconds."""
    for detail in error.get("details", ()):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            return float(delay[:-1])  # ProtoJSON: digits, perhaps a fraction, and "s"
    return None


def error_from_object(error: object, **fields: Any) -> A2AJSONRPCError | None:
    """Return the exception for an error object, None if it is not an error of the protocol."""
    if not isinstance(error, dict):
        return None
    message, details = str(error.get("message", "")), error.get("details")
    kind = _BY_REASON.get(reason_of(details) or "")
    if kind is None:
        name, colon, rest = message.partition(": ")
        if colon and name in _BY_NAME:
            kind, message = _BY_NAME[name], rest
    kind = kind or _ERROR_BY_STATUS.get(str(error.get("status", "")))
    return None if kind is None else kind(message, data=details, **fields)
