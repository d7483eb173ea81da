"""JSON-RPC requests and responses."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from coreason_client.a2a import _dialects
from coreason_client.a2a.errors import (
    A2AJSONRPCError,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
    TaskNotFoundError,
    VersionNotSupportedError,
)
from coreason_client.server.a2a._jsonrpc import (
    failure,
    parse_call,
    parse_json,
    result,
    rpc_id,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def request(method: str, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, **members}


@pytest.mark.parametrize(
    ("dialect", "version"), [(_dialects.V10, "1.0"), (_dialects.V03, "0.3")], ids=["1.0", "0.3"]
)
def test_each_method_is_an_operation(dialect: _dialects.Dialect, version: str) -> None:
    for operation, method in dialect.methods.items():
        call = parse_call(request(method, params={}), version)
        assert (call.id, call.operation, call.version) == (7, operation, version)


def test_parameters_of_the_older_version_are_converted() -> None:
    part = {"kind": "text", "text": "Hi"}
    message = {"messageId": "m", "role": "user", "parts": [part], "kind": "message"}
    params = {"message": message, "configuration": {"blocking": False}}
    call = parse_call(request("message/send", params=params), "0.3")
    assert call.params["message"]["role"] == "ROLE_USER"
    assert call.params["message"]["parts"] == [{"text": "Hi"}]
    assert call.params["configuration"] == {"returnImmediately": True}


def test_parameters_may_have_the_names_of_the_proto_file() -> None:
    call = parse_call(request("GetTask", params={"id": "t", "history_length": 1}), "1.0")
    assert call.params == {"id": "t", "historyLength": 1}


@pytest.mark.parametrize(
    ("body", "version", "kind"),
    [
        ([], "1.0", InvalidRequestError),
        ("text", "1.0", InvalidRequestError),
        ({"id": 1, "method": "GetTask"}, "1.0", InvalidRequestError),
        ({"jsonrpc": "1.0", "id": 1, "method": "GetTask"}, "1.0", InvalidRequestError),
        ({"jsonrpc": "2.0", "id": 1}, "1.0", InvalidRequestError),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, "1.0", InvalidRequestError),
        ({"jsonrpc": "2.0", "id": [1], "method": "GetTask"}, "1.0", InvalidRequestError),
        ({"jsonrpc": "2.0", "id": True, "method": "GetTask"}, "1.0", InvalidRequestError),
        (request("NoMethod"), "1.0", MethodNotFoundError),
        (request("message/send"), "1.0", MethodNotFoundError),
        (request("GetTask"), "0.3", VersionNotSupportedError),
        (request("GetTask", params=[1]), "1.0", InvalidParamsError),
        (request("message/send", params={"message": {"parts": 7}}), "0.3", None),
    ],
)
def test_what_is_wrong_has_its_error(
    body: Any, version: str, kind: type[A2AJSONRPCError] | None
) -> None:
    if kind is None:  # the operation itself refuses it
        assert parse_call(body, version).params["message"] == {"parts": 7}
        return
    with pytest.raises(kind):
        parse_call(body, version)


@given(JSON, st.sampled_from(["1.0", "0.3"]))
def test_any_body_is_a_call_or_an_error(body: Any, version: str) -> None:
    failed: A2AJSONRPCError | None = None
    try:
        parse_call(body, version)
    except A2AJSONRPCError as error:
        failed = error
    if failed is not None:
        assert from_json(failure(rpc_id(body), failed))["error"]["code"] == failed.code


@given(st.binary(max_size=20))
def test_any_bytes_are_json_or_an_error(body: bytes) -> None:
    with suppress(JSONParseError):
        parse_json(body)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_finite_is_not_json(number: str) -> None:
    with pytest.raises(JSONParseError):
        parse_json(f'{{"id": 1, "params": {number}}}'.encode())
    with pytest.raises(JSONParseError):  # nor is it half a character
        parse_json(f'{{"id": {number}, "params": "\\ud83d"}}'.encode())


@pytest.mark.parametrize("given_id", [float("inf"), float("nan"), "\ud83d"])
def test_an_id_that_json_cannot_represent_is_not_repeated(given_id: Any) -> None:
    assert rpc_id({"id": given_id}) is None


def test_half_a_character_is_refused_with_the_id_of_the_request() -> None:
    body = parse_json(b'{"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": "\\ud83d"}')
    assert rpc_id(body) == 7
    with pytest.raises(InvalidParamsError, match="half of a surrogate pair"):
        parse_call(body, "1.0")
    emoji = parse_json(b'{"jsonrpc": "2.0", "id": 7, "params": "\\ud83d\\ude00"}')
    assert (type(emoji), emoji["params"]) == (dict, "\U0001f600")


def test_results_have_the_shape_of_their_version() -> None:
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
    new = parse_call(request("GetTask", params={"id": "t"}), "1.0")
    assert from_json(result(new, "task", task)) == {"jsonrpc": "2.0", "id": 7, "result": task}
    old = parse_call(request("tasks/get", params={"id": "t"}), "0.3")
    shown = from_json(result(old, "task", task))["result"]
    assert (shown["kind"], shown["status"]) == ("task", {"state": "completed"})
    assert from_json(result(old, "event", None))["result"] is None  # the client has left


def test_an_error_has_its_code_and_details() -> None:
    response = from_json(failure("a", TaskNotFoundError("There is none.")))
    assert response["id"] == "a"
    assert response["error"]["code"] == -32001
    assert response["error"]["data"][0]["reason"] == "TASK_NOT_FOUND"
