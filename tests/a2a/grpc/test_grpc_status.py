"""The table of errors as gRPC statuses, in both directions."""

from base64 import b64decode
from typing import Any

import pytest
from google.protobuf import any_pb2, duration_pb2  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a import errors
from coreason_client.a2a._grpc._status import (
    DOMAIN,
    STATUS_NUMBERS,
    GrpcStatus,
    error_from_object,
    error_object,
    http_status,
    retry_seconds,
    status_from_error,
    status_with_delay,
)
from coreason_client.a2a.errors import A2AJSONRPCError

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
# The error, its status code, the HTTP status of that code, and the reason.
TABLE: list[tuple[type[A2AJSONRPCError], str, int, str]] = [
    (errors.TaskNotFoundError, "NOT_FOUND", 404, "TASK_NOT_FOUND"),
    (errors.TaskNotCancelableError, "FAILED_PRECONDITION", 400, "TASK_NOT_CANCELABLE"),
    (
        errors.PushNotificationNotSupportedError,
        "FAILED_PRECONDITION",
        400,
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
    ),
    (errors.UnsupportedOperationError, "FAILED_PRECONDITION", 400, "UNSUPPORTED_OPERATION"),
    (errors.ContentTypeNotSupportedError, "INVALID_ARGUMENT", 400, "CONTENT_TYPE_NOT_SUPPORTED"),
    (errors.InvalidAgentResponseError, "INTERNAL", 500, "INVALID_AGENT_RESPONSE"),
    (
        errors.ExtendedAgentCardNotConfiguredError,
        "FAILED_PRECONDITION",
        400,
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    ),
    (
        errors.ExtensionSupportRequiredError,
        "FAILED_PRECONDITION",
        400,
        "EXTENSION_SUPPORT_REQUIRED",
    ),
    (errors.VersionNotSupportedError, "UNIMPLEMENTED", 501, "VERSION_NOT_SUPPORTED"),
    (errors.JSONParseError, "INVALID_ARGUMENT", 400, "PARSE_ERROR"),
    (errors.InvalidRequestError, "INVALID_ARGUMENT", 400, "INVALID_REQUEST"),
    (errors.MethodNotFoundError, "UNIMPLEMENTED", 501, "METHOD_NOT_FOUND"),
    (errors.InvalidParamsError, "INVALID_ARGUMENT", 400, "INVALID_PARAMS"),
    (errors.InternalError, "INTERNAL", 500, "INTERNAL_ERROR"),
]


@pytest.mark.parametrize(("kind", "code", "http", "reason"), TABLE)
def test_an_error_is_a_status_and_the_status_is_the_error(
    kind: type[A2AJSONRPCError], code: str, http: int, reason: str
) -> None:
    status = status_from_error(kind("what is wrong"))
    assert (status.code, status.message) == (code, "what is wrong")
    official = status_pb2.Status.FromString(status.details)
    assert (official.code, official.message) == (STATUS_NUMBERS[code], "what is wrong")
    info = error_details_pb2.ErrorInfo()
    [detail] = official.details
    assert detail.Unpack(info)
    assert (info.reason, info.domain) == (reason, DOMAIN)
    value = error_object(status)
    assert (value["code"], value["status"]) == (http, code)
    assert value["details"] == [{"@type": ERROR_INFO, "reason": reason, "domain": DOMAIN}]
    found = error_from_object(value, status=http)
    assert type(found) is kind
    assert (found.message, found.reason, found.status) == ("what is wrong", reason, http)


def test_every_error_of_the_protocol_is_in_the_table() -> None:
    assert {row[0] for row in TABLE} == set(A2AJSONRPCError.__subclasses__())


def test_a_general_error_is_an_internal_one() -> None:
    status = status_from_error(A2AJSONRPCError("odd", code=-32099))
    assert status.code == "INTERNAL"
    assert type(error_from_object(error_object(status))) is errors.InternalError


def test_the_known_details_of_an_error_are_sent() -> None:
    violation = {"field": "message.parts", "description": "is empty"}
    bad_request = {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [violation],
    }
    data: list[Any] = [bad_request, {"@type": "type.googleapis.com/other.Thing", "a": 1}, "text"]
    status = status_from_error(errors.InvalidParamsError("no", data=data))
    official = error_details_pb2.BadRequest()
    assert status_pb2.Status.FromString(status.details).details[1].Unpack(official)
    [found] = official.field_violations
    assert (found.field, found.description) == ("message.parts", "is empty")
    assert error_object(status)["details"][1] == bad_request


def test_an_error_info_of_the_caller_is_not_repeated() -> None:
    info = {"@type": ERROR_INFO, "reason": "TASK_NOT_FOUND", "metadata": {"taskId": "t"}}
    status = status_from_error(errors.TaskNotFoundError("gone", data=[info]))
    assert error_object(status)["details"] == [info]


# Without a reason that is known.


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("NOT_FOUND", errors.TaskNotFoundError),
        ("INVALID_ARGUMENT", errors.InvalidParamsError),
        ("UNIMPLEMENTED", errors.MethodNotFoundError),
        ("OUT_OF_RANGE", errors.InvalidParamsError),
        ("UNKNOWN", errors.InternalError),
        ("INTERNAL", errors.InternalError),
        ("DATA_LOSS", errors.InternalError),
        ("ABORTED", None),
        ("ALREADY_EXISTS", None),
        ("CANCELLED", None),
        ("DEADLINE_EXCEEDED", None),
        ("FAILED_PRECONDITION", None),
        ("UNAUTHENTICATED", None),
        ("PERMISSION_DENIED", None),
        ("RESOURCE_EXHAUSTED", None),
        ("UNAVAILABLE", None),
    ],
)
def test_the_code_decides_if_it_is_conclusive(
    code: str, kind: type[A2AJSONRPCError] | None
) -> None:
    found = error_from_object(error_object(GrpcStatus(code, "text")))
    assert type(found) is (kind or type(None))


def test_agents_of_0_3_put_the_name_into_the_message() -> None:
    status = GrpcStatus("NOT_FOUND", "AuthenticatedExtendedCardNotConfiguredError: no: card")
    found = error_from_object(error_object(status))
    assert type(found) is errors.ExtendedAgentCardNotConfiguredError
    assert found.message == "no: card"
    other = error_from_object(error_object(GrpcStatus("NOT_FOUND", "Whatever: text")))
    assert type(other) is errors.TaskNotFoundError
    assert other.message == "Whatever: text"


@pytest.mark.parametrize("value", [None, "text", [], {}])
def test_something_else_is_not_an_error_object(value: object) -> None:
    assert error_from_object(value) is None


# Details that others send.


def official_details(*messages: Any) -> bytes:
    status = status_pb2.Status(code=14, message="later")
    for message in messages:
        packed = any_pb2.Any()
        packed.Pack(message)
        status.details.append(packed)
    return bytes(status.SerializeToString())


def test_the_delay_that_a_server_asks_for() -> None:
    delay = duration_pb2.Duration(seconds=2, nanos=500_000_000)
    details = official_details(error_details_pb2.RetryInfo(retry_delay=delay))
    assert retry_seconds(error_object(GrpcStatus("UNAVAILABLE", "", details))) == 2.5
    assert retry_seconds(error_object(GrpcStatus("UNAVAILABLE", ""))) is None


def test_a_detail_of_an_unknown_type_is_kept() -> None:
    details = official_details(error_details_pb2.DebugInfo(detail="x"))
    [found] = error_object(GrpcStatus("INTERNAL", "", details))["details"]
    assert found["@type"] == "type.googleapis.com/google.rpc.DebugInfo"
    assert error_details_pb2.DebugInfo.FromString(b64decode(found["value"])).detail == "x"


@given(st.binary(max_size=60), st.sampled_from([*STATUS_NUMBERS, "SOMETHING_NEW"]))
def test_any_details_are_an_error_object(details: bytes, code: str) -> None:
    value = error_object(GrpcStatus(code, "text", details))
    assert value["code"] == http_status(code)
    retry_seconds(value)
    error_from_object(value)


def test_a_status_says_when_to_retry() -> None:
    status = status_with_delay("UNAVAILABLE", "Later.", 7)
    found = error_object(status)
    assert (found["status"], found["message"], retry_seconds(found)) == ("UNAVAILABLE", "Later.", 7)
    assert status_with_delay("NOT_FOUND", "No.", None) == GrpcStatus("NOT_FOUND", "No.")
