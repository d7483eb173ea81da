"""The messages of gRPC in both versions of the protocol: parameters, results, errors. No I/O."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from coreason_client.a2a import _dialects
from coreason_client.a2a._grpc._messages import (
    GrpcMethod,
    message_type,
    parse_message,
    to_json_object,
    to_message,
)
from coreason_client.a2a._grpc._status import GrpcStatus, status_from_error, status_with_delay
from coreason_client.a2a.errors import A2AJSONRPCError, InvalidParamsError, VersionNotSupportedError
from coreason_client.server.a2a._v03._conversions import PARAMS_FROM_V03_GRPC, RESULTS_TO_V03_GRPC

from ..http._body import too_complex
from ..http._problems import Problem
from ._error_formats import details_of
from ._protocol import V03, requested_version

_SCALARS: Final = (str, bytes, int, float)


def check_version(version: str, named: str | None) -> None:
    """Check that a request names no other version than that of its service.

    The service already has a version, so a request may leave it out.

    Raises:
        VersionNotSupportedError: it names another one.
    """
    if named and requested_version(named) != version:
        raise VersionNotSupportedError(
            f"This service is that of version {version}, but the request is for another one."
        )


def parse_params(method: GrpcMethod, version: str, data: bytes, max_values: int) -> dict[str, Any]:
    """Return the parameters of an operation in the shape of 1.0.

    Raises:
        InvalidParamsError: they cannot be used.
        Problem: there are more than `max_values` values.
    """
    try:
        message = parse_message(message_type(method.request), data)
        if _has_more_values(message, max_values):
            raise too_complex(max_values)
        params = to_json_object(message)
        convert = PARAMS_FROM_V03_GRPC.get(method.operation) if version == V03 else None
        if convert is None:
            return params
        converted: dict[str, Any] = _dialects.convert_checked(convert, params)
    except ValueError as error:
        raise InvalidParamsError(f"The request is wrong: {error}.") from None
    return converted


def _has_more_values(message: Any, limit: int) -> bool:
    """Return True if a message has more values than a limit, at any depth.

    The conversion to JSON takes microseconds for each value, so the size does not bound its cost.
    """
    count, waiting = 0, [message]
    while waiting:
        for _, value in waiting.pop().ListFields():
            inner = _inner_values(value)
            count += len(inner)
            if count > limit:
                return True
            waiting += [item for item in inner if hasattr(item, "ListFields")]
    return False


def _inner_values(value: Any) -> list[Any]:
    """Return the values of a field: itself, or those of a list or a map."""
    if isinstance(value, _SCALARS) or hasattr(value, "ListFields"):
        return [value]
    inner: Iterable[Any] = value.values() if hasattr(value, "values") else value
    return list(inner)


def encode_result(method: GrpcMethod, version: str, kind: str, value: Any) -> bytes:
    """Return the message for a kind of result, which has the shape of 1.0."""
    if kind == "nothing":
        return b""
    convert = RESULTS_TO_V03_GRPC.get(kind) if version == V03 else None
    shown = value if convert is None else convert(value)
    encoded: bytes = to_message(method.response, shown).SerializeToString()
    return encoded


# Errors and refusals as statuses

_CODES: Final[Mapping[int, str]] = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    410: "OUT_OF_RANGE",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def error_status(version: str, error: A2AJSONRPCError) -> GrpcStatus:
    """Return the status for an error of the protocol.

    In 1.0 its details identify the error; in 0.3 its message begins with the name of the error.
    """
    status = status_from_error(type(error)(error.message, data=details_of(error)))
    if version == V03:
        return GrpcStatus(status.code, f"{type(error).__name__}: {error.message}")
    return status


def problem_status(problem: Problem) -> GrpcStatus:
    """Return the status for a refusal; a `Retry-After` becomes a `RetryInfo`."""
    wrong = "INVALID_ARGUMENT" if problem.status < 500 else "INTERNAL"
    after = (problem.headers or {}).get("Retry-After")
    seconds = None if after is None else int(after)
    return status_with_delay(_CODES.get(problem.status, wrong), problem.detail, seconds)
