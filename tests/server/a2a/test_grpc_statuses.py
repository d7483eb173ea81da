"""Errors and refusals as statuses, read with the official messages."""

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from coreason_client.a2a._grpc._status import STATUS_NUMBERS, error_from_object, error_object
from coreason_client.a2a.errors import A2AJSONRPCError
from coreason_client.server.a2a._grpc_codec import error_status, problem_status
from coreason_client.server.a2a._incoming import wrong
from coreason_client.server.http._problems import Problem, shutting_down

from .grpc_peer import expected_code

KINDS = A2AJSONRPCError.__subclasses__()


def details(data: bytes, kind: type) -> list[AnyMessage]:
    found = []
    for detail in status_pb2.Status.FromString(data).details:
        message = kind()
        if detail.Unpack(message):
            found.append(message)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_the_status_of_the_table_and_is_recognised(
    kind: type[A2AJSONRPCError],
) -> None:
    error = kind("It is so.")
    status = error_status("1.0", error)
    assert (status.code, status.message) == (expected_code(error), "It is so.")
    assert status_pb2.Status.FromString(status.details).code == STATUS_NUMBERS[status.code]
    [info] = details(status.details, error_details_pb2.ErrorInfo)
    assert info.domain == "a2a-protocol.org"
    assert type(error_from_object(error_object(status))) is kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_in_0_3_the_message_names_the_error(kind: type[A2AJSONRPCError]) -> None:
    error = kind("It is so.")
    status = error_status("0.3", error)
    assert status.code == expected_code(error)
    assert status.message == f"{kind.__name__}: It is so."
    found = error_from_object(error_object(status))
    assert type(found) is kind
    assert found.message == "It is so."


def test_a_wrong_parameter_is_named() -> None:
    status = error_status("1.0", wrong("message.parts", "must have at least one part"))
    [request] = details(status.details, error_details_pb2.BadRequest)
    [violation] = request.field_violations
    assert (violation.field, violation.description) == (
        "message.parts",
        "must have at least one part",
    )


@pytest.mark.parametrize(
    ("http", "code"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (408, "DEADLINE_EXCEEDED"),
        (409, "ABORTED"),
        (410, "OUT_OF_RANGE"),
        (413, "INVALID_ARGUMENT"),
        (429, "RESOURCE_EXHAUSTED"),
        (431, "INVALID_ARGUMENT"),
        (500, "INTERNAL"),
        (503, "UNAVAILABLE"),
    ],
)
def test_refusals(http: int, code: str) -> None:
    status = problem_status(Problem(http, "x", "No.", headers={"Connection": "close"}))
    assert (status.code, status.message, status.details) == (code, "No.", b"")


def test_when_to_retry() -> None:
    status = problem_status(shutting_down())
    assert status.code == "UNAVAILABLE"
    [info] = details(status.details, error_details_pb2.RetryInfo)
    assert info.retry_delay.seconds == 1
