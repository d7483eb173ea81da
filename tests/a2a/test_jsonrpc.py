"""JSON-RPC: the requests that are sent, and which responses and events are accepted."""

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client._http._types import Headers, ResponseHead, timeouts_from
from coreason_client.a2a import errors
from coreason_client.a2a._bindings import JsonRpcCall, JsonRpcChannel
from coreason_client.a2a._call import Settings
from coreason_client.a2a._dialects import OPERATIONS, V03, V10, Dialect
from coreason_client.a2a.types import Message, Task, TaskState, UnknownEvent

URL = "https://agent.example/rpc"
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
OLD_TASK = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}
MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Hello"}]}
NUMBER = 7


def channel(dialect: Dialect = V10, *, tenant: str | None = None) -> JsonRpcChannel:
    given = Settings(unary=timeouts_from(180.0), stream=timeouts_from(60.0))
    return JsonRpcChannel(URL, dialect, given, count(NUMBER), tenant)


def made(name: str, dialect: Dialect = V10, **params: Any) -> JsonRpcCall:
    return channel(dialect).call(OPERATIONS[name], params)


def body(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": NUMBER, **members}).encode()


# Requests


def test_a_request_has_the_envelope_and_the_headers_of_the_protocol() -> None:
    request = made("get_task", id="t").request
    expected = {"jsonrpc": "2.0", "id": NUMBER, "method": "GetTask", "params": {"id": "t"}}
    assert json.loads(request.content) == expected
    assert (request.method, request.url) == ("POST", URL)
    assert request.headers["Content-Type"] == "application/json"
    assert "Last-Event-ID" not in request.headers


def test_ids_count_up() -> None:
    used = channel()
    calls = [used.call(OPERATIONS["get_task"], {"id": "t"}) for _ in range(3)]
    assert [json.loads(call.request.content)["id"] for call in calls] == [7, 8, 9]


@pytest.mark.parametrize(("name", "read"), [("get_task", 180.0), ("resubscribe", 60.0)])
def test_a_stream_has_the_timeouts_of_streams(name: str, read: float) -> None:
    timeouts = made(name, id="t").request.timeouts
    assert timeouts is not None
    assert timeouts.read == read


def test_the_settings_of_a_call_replace_those_of_the_channel() -> None:
    own = Settings(unary=timeouts_from(3.0), headers={"X-Team": "blue"})
    request = channel().call(OPERATIONS["get_task"], {"id": "t"}, settings=own).request
    assert request.timeouts == own.unary
    assert request.headers["X-Team"] == "blue"


def test_the_cursor_is_sent_even_if_it_is_empty() -> None:
    for cursor in ("9", ""):
        call = channel().call(OPERATIONS["resubscribe"], {"id": "t"}, cursor)
        assert call.request.headers["Last-Event-ID"] == cursor


@pytest.mark.parametrize(
    ("dialect", "params", "expected"),
    [
        (V10, {"id": "t"}, {"tenant": "blue", "id": "t"}),
        (V10, {"id": "t", "tenant": "red"}, {"tenant": "red", "id": "t"}),
        (V03, {"id": "t"}, {"id": "t"}),  # 0.3 has no tenants
    ],
)
def test_the_tenant_is_a_parameter(
    dialect: Dialect, params: dict[str, Any], expected: dict[str, Any]
) -> None:
    call = channel(dialect, tenant="blue").call(OPERATIONS["get_task"], params)
    assert json.loads(call.request.content)["params"] == expected


def test_a_method_that_the_dialect_does_not_have_is_an_error() -> None:
    with pytest.raises(errors.UnsupportedOperationError, match=r"version 0\.3 .* no list_tasks"):
        made("list_tasks", V03)


def test_another_verb_never_helps() -> None:
    call = made("resubscribe", id="t")
    head = ResponseHead(405, Headers())
    assert call.try_other_verb(head, call.response_error(head, b"")) is False


# Responses


@pytest.mark.parametrize(
    ("name", "dialect", "result"),
    [("get_task", V10, TASK), ("get_task", V03, OLD_TASK), ("send_message", V10, {"task": TASK})],
)
def test_a_result_becomes_an_object(name: str, dialect: Dialect, result: Any) -> None:
    found = made(name, dialect, id="t", message=MESSAGE).parse_response(body(result=result))
    assert isinstance(found, Task)
    assert (found.id, found.status.state) == ("t", TaskState.WORKING)


IDS = pytest.mark.parametrize(
    ("number", "accepted"),
    [
        (7, True),
        ("7", True),
        (8, False),
        ("07", False),
        ("7.0", False),
        (7.0, False),
        (True, False),
        (None, False),
        ([7], False),
    ],
)


@IDS
def test_the_id_must_be_that_of_the_request(number: Any, accepted: bool) -> None:
    reply = body(id=number, result=TASK)
    call = made("get_task", id="t")
    if accepted:
        assert call.parse_response(reply).id == "t"
    else:
        with pytest.raises(errors.A2AJSONError, match="its id must be 7, got"):
            call.parse_response(reply)


def test_true_is_not_the_id_1() -> None:
    call = JsonRpcChannel(URL, V10, Settings(), count(1)).call(OPERATIONS["get_task"], {"id": "t"})
    with pytest.raises(errors.A2AJSONError, match="its id must be 1, got True"):
        call.parse_response(body(id=True, result=TASK))
    channel = JsonRpcChannel(URL, V10, Settings(), count(1))
    stream = channel.call(OPERATIONS["resubscribe"], {"id": "t"})
    with pytest.raises(errors.A2ASSEParseError, match="its id must be 1, got True"):
        stream.parse_event(body(id=True, result={"task": TASK}))


@pytest.mark.parametrize("number", [None, NUMBER, str(NUMBER)])
def test_an_error_may_have_the_id_null(number: Any) -> None:
    reply = body(id=number, error={"code": -32700, "message": "not JSON"})
    with pytest.raises(errors.JSONParseError, match="not JSON"):
        made("get_task", id="t").parse_response(reply)


def test_an_error_with_the_id_of_another_request_is_not_ours() -> None:
    reply = body(id=8, error={"code": -32001, "message": "not found"})
    with pytest.raises(errors.A2AJSONError, match="its id must be 7, got 8"):
        made("get_task", id="t").parse_response(reply)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ({"code": -32001, "message": "gone"}, errors.TaskNotFoundError, "gone"),
        ({"code": -1, "message": "odd"}, errors.A2AJSONRPCError, "odd"),
        ("out of paper", errors.A2AJSONRPCError, "out of paper"),
        ("x" * 501, errors.A2AJSONRPCError, "x" * 500),
        ({}, errors.A2AJSONError, "its error is not an error object"),
        (7, errors.A2AJSONError, "its error is not an error object"),
        (False, errors.A2AJSONError, "its error is not an error object"),
    ],
)
def test_an_error_wins_over_a_result(error: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        made("get_task", id="t").parse_response(body(error=error, result=TASK))
    assert type(caught.value) is kind
    if isinstance(caught.value, errors.A2AJSONRPCError):
        assert caught.value.message == message
    else:
        assert str(caught.value).endswith(message)


def test_an_error_that_is_null_is_no_error() -> None:
    assert made("get_task", id="t").parse_response(body(error=None, result=TASK)).id == "t"


@pytest.mark.parametrize("members", [{}, {"result": None}, {"result": {}}])
def test_only_a_delete_may_have_no_result(members: dict[str, Any]) -> None:
    deleted = made("delete_push_config", taskId="t", id="p").parse_response(body(**members))
    assert deleted is None
    with pytest.raises(errors.A2AEmptyResultError, match="send_message contains no result"):
        made("send_message", message=MESSAGE).parse_response(body(**members))


@pytest.mark.parametrize("members", [{}, {"result": None}])
def test_a_task_needs_a_result(members: dict[str, Any]) -> None:
    with pytest.raises(errors.A2AEmptyResultError, match="get_task contains no result"):
        made("get_task", id="t").parse_response(body(**members))


def test_a_result_in_the_older_dialect_is_converted() -> None:
    inner = {"id": "p", "url": "https://hook.example"}
    reply = body(result={"taskId": "t", "pushNotificationConfig": inner})
    found = made("get_push_config", V03, taskId="t", id="p").parse_response(reply)
    assert (found.task_id, found.id, found.url) == ("t", "p", "https://hook.example")


@pytest.mark.parametrize(
    "reply", [b"", b"[]", b"null", b"<html>", b'{"id": 7, "result": {"id": 1}}']
)
@pytest.mark.parametrize("dialect", [V10, V03])
def test_other_bodies_are_errors_that_keep_the_body(reply: bytes, dialect: Dialect) -> None:
    with pytest.raises(errors.A2AJSONError, match="the response to get_task is not valid") as error:
        made("get_task", dialect, id="t").parse_response(reply)
    assert error.value.body == reply
    assert error.value.__cause__ is None  # the original error quotes what the agent sent


def test_a_status_that_is_an_error_keeps_the_error_of_the_protocol() -> None:
    call = made("get_task", id="t")
    head = ResponseHead(404, Headers())
    error = call.response_error(head, body(error={"code": -32001, "message": "gone"}))
    assert (type(error), error.status) == (errors.TaskNotFoundError, 404)


# Events


@IDS
def test_the_id_of_an_event_must_be_that_of_the_request(number: Any, accepted: bool) -> None:
    data = body(id=number, result={"task": TASK})
    call = made("resubscribe", id="t")
    if accepted:
        assert isinstance(call.parse_event(data), Task)
    else:
        with pytest.raises(errors.A2ASSEParseError, match="its id must be 7, got"):
            call.parse_event(data)


@pytest.mark.parametrize(
    "data",
    [
        body(result={"message": MESSAGE}),
        body(id="7", result={"message": MESSAGE}),
        body(error=None, result={"message": MESSAGE}),
        json.dumps({"kind": "message", **MESSAGE, "role": "agent"}).encode(),  # no envelope
    ],
)
def test_an_event_may_come_with_or_without_the_envelope(data: bytes) -> None:
    event = made("send_message_stream", message=MESSAGE).parse_event(data)
    assert isinstance(event, Message)
    assert event.text == "Hello"


def test_a_result_without_a_version_is_not_mistaken_for_a_bare_task() -> None:
    data = json.dumps({"id": "7", "status": {}, "result": {"message": MESSAGE}}).encode()
    event = made("send_message_stream", message=MESSAGE).parse_event(data)
    assert isinstance(event, Message)


def test_an_event_in_the_older_dialect_is_converted() -> None:
    event = made("send_message_stream", V03, message=MESSAGE).parse_event(body(result=OLD_TASK))
    assert isinstance(event, Task)
    assert event.status.state == TaskState.WORKING


def test_an_event_that_is_not_known_is_kept() -> None:
    event = made("send_message_stream", message=MESSAGE).parse_event(body(result={"new": {"a": 1}}))
    assert isinstance(event, UnknownEvent)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (body(error={"code": -32001, "message": "gone"}), errors.TaskNotFoundError),
        (
            body(error={"code": -32001, "message": "x"}, result={"task": TASK}),
            errors.TaskNotFoundError,
        ),
        (body(result={}), errors.A2AEmptyResultError),
        (body(id=8, result={"task": TASK}), errors.A2ASSEParseError),
        (body(result={"task": {"id": []}}), errors.A2ASSEParseError),
        (b"ping", errors.A2ASSEParseError),
        (b'{"jsonrpc": "2.0", "kind": "message", "messageId": "m"}', errors.A2ASSEParseError),
    ],
)
def test_data_that_is_no_event_is_an_error(data: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        made("send_message_stream", message=MESSAGE).parse_event(data)
    assert type(caught.value) is kind


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 9) | st.sampled_from(["7", "t", "task"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["jsonrpc", "id", "result", "error", "task", "status", "kind", "code"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=80)
@given(json_values, st.sampled_from(["get_task", "send_message_stream"]), st.booleans())
def test_any_json_is_parsed_or_is_an_error_of_ours(value: Any, name: str, old: bool) -> None:
    call = made(name, V03 if old else V10, id="t", message=MESSAGE)
    data = json.dumps(value).encode()
    for parse in (call.parse_response, call.parse_event):
        try:
            parse(data)
        except errors.A2AError:
            continue
