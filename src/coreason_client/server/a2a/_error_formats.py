"""The errors of A2A as each binding writes them. No I/O.

An operation raises an error of `coreason_client.a2a.errors`; its class decides everything else. In
1.0 every error of A2A itself carries an `ErrorInfo`, in all bindings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from coreason_client.a2a import errors
from coreason_client.a2a._dialects import ERRORS_BY_REASON
from coreason_client.a2a.errors import A2AJSONRPCError

DOMAIN: Final = "a2a-protocol.org"
_ANY: Final = "type.googleapis.com/google.rpc."


class Status(NamedTuple):
    """The status of an error over HTTP+JSON, and the name of its status in gRPC."""

    http: int
    grpc: str


_FAILED_PRECONDITION: Final = Status(400, "FAILED_PRECONDITION")
_INVALID_ARGUMENT: Final = Status(400, "INVALID_ARGUMENT")
_INTERNAL: Final = Status(500, "INTERNAL")
_STATUSES: Final[Mapping[type[A2AJSONRPCError], Status]] = {
    errors.JSONParseError: _INVALID_ARGUMENT,
    errors.InvalidRequestError: _INVALID_ARGUMENT,
    errors.MethodNotFoundError: Status(404, "UNIMPLEMENTED"),
    errors.InvalidParamsError: _INVALID_ARGUMENT,
    errors.InternalError: _INTERNAL,
    errors.TaskNotFoundError: Status(404, "NOT_FOUND"),
    errors.TaskNotCancelableError: _FAILED_PRECONDITION,
    errors.PushNotificationNotSupportedError: _FAILED_PRECONDITION,
    errors.UnsupportedOperationError: _FAILED_PRECONDITION,
    errors.ContentTypeNotSupportedError: _INVALID_ARGUMENT,
    errors.InvalidAgentResponseError: _INTERNAL,
    errors.ExtendedAgentCardNotConfiguredError: _FAILED_PRECONDITION,
    errors.ExtensionSupportRequiredError: _FAILED_PRECONDITION,
    errors.VersionNotSupportedError: _FAILED_PRECONDITION,
}
_REASONS: Final = {kind: reason for reason, kind in ERRORS_BY_REASON.items()}


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """A parameter that is wrong; a list of them is the `data` of an `InvalidParamsError`."""

    field: str
    description: str

    def dump(self) -> dict[str, str]:
        """Return it as JSON."""
        return {"field": self.field, "description": self.description}


def status_of(error: A2AJSONRPCError) -> Status:
    """Return the status of an error."""
    return _STATUSES.get(type(error), _INTERNAL)


def details_of(error: A2AJSONRPCError) -> list[dict[str, Any]]:
    """Return the details of an error: its `ErrorInfo`, and the parameters that are wrong."""
    details: list[dict[str, Any]] = []
    reason = _REASONS.get(type(error))
    if reason is not None:
        info = {"reason": reason, "domain": DOMAIN, "metadata": {}}
        details.append({"@type": f"{_ANY}ErrorInfo", **info})
    if violations := _violations(error.data):
        shown = [violation.dump() for violation in violations]
        details.append({"@type": f"{_ANY}BadRequest", "fieldViolations": shown})
    return details


def _violations(data: object) -> Sequence[FieldViolation]:
    found = data if isinstance(data, Sequence) else ()
    return [violation for violation in found if isinstance(violation, FieldViolation)]


def jsonrpc_error(error: A2AJSONRPCError) -> dict[str, Any]:
    """Return the `error` of a JSON-RPC response; both versions of the protocol understand it."""
    formatted: dict[str, Any] = {"code": error.code, "message": error.message}
    if details := details_of(error):
        formatted["data"] = details
    return formatted


def rest_error(error: A2AJSONRPCError) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of an HTTP+JSON response."""
    status = status_of(error)
    body = {
        "code": status.http,
        "status": status.grpc,
        "message": error.message,
        "details": details_of(error),
    }
    return status.http, {"error": body}
