"""Errors and refusals as gRPC statuses, in both versions of the protocol. No I/O."""

from collections.abc import Mapping
from typing import Final

from coreason_client.a2a._grpc._status import GrpcStatus, status_from_error, status_with_delay
from coreason_client.a2a.errors import A2AJSONRPCError

from ..http._problems import Problem
from ._error_formats import details_of
from ._versions import V03

__all__ = ["error_status", "problem_status"]

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
