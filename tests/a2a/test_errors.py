"""The errors: one tree, fields that survive pickling, words without secrets."""

import pickle

import pytest

from coreason_client._http._types import FailureKind, Request, TransportFailure
from coreason_client.a2a import errors
from coreason_client.a2a._call import connection_error, json_rpc_error, status_error, was_never_sent
from coreason_client.a2a._dialects import ERRORS_BY_CODE, ERRORS_BY_REASON
from coreason_client.a2a.errors import (
    A2AConnectionError,
    A2AError,
    A2AHTTPError,
    A2AJSONRPCError,
    A2ASSEParseError,
    A2AStreamClosedError,
    A2ATimeoutError,
    ClientError,
    TaskNotFoundError,
)
from coreason_client.a2a.types import Task
from coreason_client.errors import CoreasonError

KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.proves("R21c")
def test_all_are_a2a_errors_and_drawn_in_the_tree() -> None:
    assert ClientError is A2AError
    assert issubclass(A2AError, CoreasonError)
    assert errors.__doc__ is not None
    for kind in KINDS:
        assert issubclass(kind, A2AError)
        assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize("kind", KINDS)
def test_errors_can_be_pickled(kind: type[A2AError]) -> None:
    error = kind("words")
    error.status, error.task_id = 7, "t"
    error.task = Task(id="t")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
    assert again.status_code == 7


@pytest.mark.proves("A2A-error-jsonrpc")
@pytest.mark.parametrize(("code", "kind"), ERRORS_BY_CODE.items())
def test_every_code_has_its_class(code: int, kind: type[A2AJSONRPCError]) -> None:
    error = json_rpc_error({"code": code, "message": "No.", "data": [1]})
    assert type(error) is kind
    assert (error.code, error.message, error.data) == (code, "No.", [1])
    assert str(error) == f"code={code}, message=No."
    assert kind("No.").code == code


def test_a_huge_code_is_not_written_out() -> None:
    error = json_rpc_error({"code": 10**4000, "message": "No."})
    assert str(error) == "code=a value of type int, message=No."


@pytest.mark.parametrize(("reason", "kind"), ERRORS_BY_REASON.items())
def test_every_reason_has_the_same_class(reason: str, kind: type[A2AJSONRPCError]) -> None:
    details = [{"@type": "x"}, {"reason": reason}]
    error = status_error({"code": 400, "message": "No.", "details": details}, status=400)
    assert type(error) is kind
    assert (error.status, error.reason, error.code) == (400, reason, kind.default_code)


@pytest.mark.parametrize("odd", [None, "no", [], {}, {"code": "x"}, {"code": True}])
def test_what_is_no_error_object(odd: object) -> None:
    assert json_rpc_error(odd) is None
    assert status_error(odd) is None


def test_fields() -> None:
    assert TaskNotFoundError("x", data="text").reason is None
    assert len(A2ASSEParseError("x", b"y" * 5000).data) == 1000
    assert A2AStreamClosedError("x").text == ""


@pytest.mark.proves("A2A-error-http")
def test_a_connection_error_says_where_without_secrets() -> None:
    request = Request("GET", "https://a.example/x?key=secret", {})
    cause = OSError("gone")
    failure = TransportFailure(FailureKind.BROKEN, "reset")
    failure.__cause__ = cause
    error = connection_error(request, failure, 3)
    assert str(error) == "no answer to GET https://a.example/x: reset"
    assert (type(error), error.attempts, error.__cause__) == (A2AConnectionError, 3, cause)
    for kind in (FailureKind.TIMEOUT, FailureKind.CONNECT_TIMEOUT):
        slow = connection_error(request, TransportFailure(kind, "slow"), 1)
        assert type(slow) is A2ATimeoutError
        assert isinstance(slow, A2AHTTPError | TimeoutError)


@pytest.mark.parametrize("kind", FailureKind)
def test_another_interface_is_used_only_if_nothing_was_sent(kind: FailureKind) -> None:
    never_sent = {"connect", "connect_timeout"}
    assert was_never_sent(TransportFailure(kind, "x")) is (kind in never_sent)
