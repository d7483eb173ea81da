"""Errors as each binding writes them."""

import pytest

from coreason_client.a2a import errors
from coreason_client.a2a._dialects import ERRORS_BY_CODE
from coreason_client.a2a.errors import A2AJSONRPCError
from coreason_client.server.a2a._error_formats import (
    FieldViolation,
    Status,
    jsonrpc_error,
    rest_error,
    status_of,
)

# The table of the specification: code, HTTP status, gRPC status, reason.
TABLE = [
    (-32700, 400, "INVALID_ARGUMENT", None),
    (-32600, 400, "INVALID_ARGUMENT", None),
    (-32601, 404, "UNIMPLEMENTED", None),
    (-32602, 400, "INVALID_ARGUMENT", None),
    (-32603, 500, "INTERNAL", None),
    (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    (-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    (-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    (-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    (-32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE"),
    (-32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    (-32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"),
    (-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
]


def test_every_error_of_the_protocol_is_in_the_table() -> None:
    assert {code for code, *_ in TABLE} == set(ERRORS_BY_CODE)


@pytest.mark.parametrize(("code", "http", "grpc", "reason"), TABLE)
def test_an_error(code: int, http: int, grpc: str, reason: str | None) -> None:
    error = ERRORS_BY_CODE[code]("Why.")
    info: list[dict[str, object]] = [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "a2a-protocol.org",
            "metadata": {},
        }
    ]
    details = [] if reason is None else info
    assert status_of(error) == Status(http, grpc)
    with_data = {} if reason is None else {"data": details}
    assert jsonrpc_error(error) == {"code": code, "message": "Why.", **with_data}
    assert rest_error(error) == (
        http,
        {"error": {"code": http, "status": grpc, "message": "Why.", "details": details}},
    )


def test_wrong_parameters_are_named() -> None:
    wrong = [FieldViolation("message.parts", "must not be empty")]
    error = errors.InvalidParamsError("The parameters are invalid.", data=wrong)
    assert jsonrpc_error(error)["data"] == [
        {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": "message.parts", "description": "must not be empty"}],
        }
    ]


def test_an_error_of_another_class_is_internal() -> None:
    assert status_of(A2AJSONRPCError("Why.", code=-32099)) == Status(500, "INTERNAL")
