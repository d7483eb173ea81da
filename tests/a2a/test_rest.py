"""HTTP+JSON: verbs, paths, queries and bodies, and which responses and events are accepted.

The shapes of version 0.3 are in `test_rest_v03.py`.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client._http._types import Headers, ResponseHead, timeouts_from
from coreason_client.a2a import errors
from coreason_client.a2a._bindings import RestCall, RestChannel
from coreason_client.a2a._call import Settings
from coreason_client.a2a._dialects import OPERATIONS, V10, Dialect
from coreason_client.a2a._v03._rest import V03_REST
from coreason_client.a2a.types import Message, Task, UnknownEvent

URL = "https://agent.example/base"
MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Hello"}]}
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
STATUS = {
    "code": 404,
    "message": "gone",
    "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND"}],
}


def channel(url: str = URL, *, tenant: str | None = None, dialect: Dialect = V10) -> RestChannel:
    given = Settings(unary=timeouts_from(180.0), stream=timeouts_from(60.0))
    return RestChannel(url, given, tenant, dialect)


def made(name: str, **params: Any) -> RestCall:
    return channel().call(OPERATIONS[name], params)


# Requests


@pytest.mark.parametrize(
    ("name", "params", "line", "body"),
    [
        ("send_message", {"message": MESSAGE}, "POST /message:send", {"message": MESSAGE}),
        ("get_task", {"id": "t"}, "GET /tasks/t", None),
        ("get_task", {"id": "t", "historyLength": 3}, "GET /tasks/t?historyLength=3", None),
        (
            "list_tasks",
            {"includeArtifacts": True, "pageToken": "a b"},
            "GET /tasks?includeArtifacts=true&pageToken=a+b",
            None,
        ),
        ("list_tasks", {"includeArtifacts": False}, "GET /tasks?includeArtifacts=false", None),
        ("cancel_task", {"id": "t", "metadata": {"a": 1}}, "POST /tasks/t:cancel",
         {"metadata": {"a": 1}}),
        ("resubscribe", {"id": "t"}, "POST /tasks/t:subscribe", {}),
        ("delete_push_config", {"taskId": "t", "id": "p"},
         "DELETE /tasks/t/pushNotificationConfigs/p", None),
        ("get_task", {"id": "a/b?c#d"}, "GET /tasks/a%2Fb%3Fc%23d", None),
        ("get_task", {"id": "../x"}, "GET /tasks/..%2Fx", None),
    ],
)  # fmt: skip
def test_path_parameters_and_the_rest_have_their_places(
    name: str, params: dict[str, Any], line: str, body: Any
) -> None:
    before = json.dumps(params)
    request = made(name, **params).request
    assert f"{request.method} {request.url.removeprefix(URL)}" == line
    assert (json.loads(request.content) if request.content else None) == body
    assert ("Content-Type" in request.headers) is (body is not None)
    assert json.dumps(params) == before


@pytest.mark.parametrize(
    ("tenant", "params", "path"),
    [
        (None, {"id": "t"}, "/tasks/t"),
        ("blue", {"id": "t"}, "/blue/tasks/t"),
        ("a/b", {"id": "t"}, "/a%2Fb/tasks/t"),
        ("blue", {"id": "t", "tenant": "red"}, "/red/tasks/t"),
        ("blue", {"id": "t", "tenant": ""}, "/blue/tasks/t"),
    ],
)
def test_the_tenant_comes_before_the_path(
    tenant: str | None, params: dict[str, Any], path: str
) -> None:
    request = channel(tenant=tenant).call(OPERATIONS["get_task"], params).request
    assert request.url == URL + path


def test_a_slash_at_the_end_of_the_url_is_not_doubled() -> None:
    request = channel(f"{URL}/").call(OPERATIONS["get_task"], {"id": "t"}).request
    assert request.url == f"{URL}/tasks/t"


@pytest.mark.parametrize(
    ("name", "accept", "read"),
    [
        ("get_task", "application/a2a+json, application/json", 180.0),
        ("resubscribe", "text/event-stream, application/json", 60.0),
    ],
)
def test_a_stream_has_its_own_types_and_timeouts(name: str, accept: str, read: float) -> None:
    request = made(name, id="t").request
    assert request.headers["Accept"] == accept
    assert request.timeouts is not None
    assert request.timeouts.read == read


def test_a_type_is_accepted_once() -> None:
    call = channel(dialect=V03_REST).call(OPERATIONS["get_task"], {"id": "t"})
    assert call.request.headers["Accept"] == "application/json"


def test_the_settings_of_a_call_and_the_cursor_are_sent() -> None:
    own = Settings(stream=timeouts_from(3.0), headers={"X-Team": "blue"})
    request = channel().call(OPERATIONS["resubscribe"], {"id": "t"}, "", own).request
    assert request.headers["Last-Event-ID"] == ""
    assert request.headers["X-Team"] == "blue"
    assert request.timeouts == own.stream
    assert "Last-Event-ID" not in made("resubscribe", id="t").request.headers


def test_an_operation_that_the_dialect_does_not_have_is_an_error() -> None:
    bare = Dialect("9.9", {}, ())
    with pytest.raises(errors.UnsupportedOperationError, match=r"version 9\.9 .* no get_task"):
        channel(dialect=bare).call(OPERATIONS["get_task"], {"id": "t"})


# The verb of a subscription


@pytest.mark.parametrize(
    ("name", "status", "body", "other"),
    [
        ("resubscribe", 404, b"", True),
        ("resubscribe", 405, b"{}", True),
        ("resubscribe", 400, b"", False),
        ("resubscribe", 503, b"", False),
        ("resubscribe", 404, json.dumps({"error": STATUS}).encode(), False),  # the task is gone
        ("cancel_task", 405, b"", False),
    ],
)
def test_get_is_tried_where_post_is_not_known(
    name: str, status: int, body: bytes, other: bool
) -> None:
    used = channel()
    call = used.call(OPERATIONS[name], {"id": "t"})
    head = ResponseHead(status, Headers())
    assert call.try_other_verb(head, call.response_error(head, body)) is other
    again = used.call(OPERATIONS["resubscribe"], {"id": "t"})
    assert again.request.method == ("GET" if other else "POST")
    assert not (other and again.try_other_verb(head, again.response_error(head, body)))


# Responses


@pytest.mark.parametrize(
    ("name", "body", "kind"),
    [
        ("get_task", TASK, Task),
        ("send_message", {"task": TASK}, Task),
        ("send_message", {"message": MESSAGE}, Message),
        ("send_message", {"new": 1}, UnknownEvent),
    ],
)
def test_the_body_is_the_result(name: str, body: Any, kind: type) -> None:
    found = made(name, id="t", message=MESSAGE).parse_response(json.dumps(body).encode())
    assert type(found) is kind


@pytest.mark.parametrize("body", [b"", b" \n", b"null", b"{}", b" {} "])
def test_an_empty_body_is_an_empty_list_or_nothing_or_an_error(body: bytes) -> None:
    assert made("list_tasks").parse_response(body).tasks == []
    assert made("list_push_configs", taskId="t").parse_response(body).configs == []
    assert made("delete_push_config", taskId="t", id="p").parse_response(body) is None
    for name in ("get_task", "send_message"):
        with pytest.raises(errors.A2AEmptyResultError, match=f"{name} contains no result"):
            made(name, id="t", message=MESSAGE).parse_response(body)


def test_the_body_of_a_delete_is_not_read() -> None:
    assert made("delete_push_config", taskId="t", id="p").parse_response(b"<html>") is None


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"id": 1}', b'"text"'])
def test_other_bodies_are_errors_that_keep_the_body(body: bytes) -> None:
    with pytest.raises(errors.A2AJSONError, match="the response to get_task is not valid") as error:
        made("get_task", id="t").parse_response(body)
    assert error.value.body == body
    assert error.value.__cause__ is None  # the original error quotes what the agent sent


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json.dumps({"error": STATUS}).encode(), errors.TaskNotFoundError),
        (b'{"error": {"code": 500}}', errors.A2AHTTPError),
        (b"<html>", errors.A2AHTTPError),
    ],
)
def test_the_reason_identifies_an_error(body: bytes, kind: type[errors.A2AError]) -> None:
    error = made("get_task", id="t").response_error(ResponseHead(404, Headers()), body)
    assert (type(error), error.status) == (kind, 404)


# Events


def test_an_event_is_the_result_itself() -> None:
    event = made("resubscribe", id="t").parse_event(json.dumps({"task": TASK}).encode())
    assert isinstance(event, Task)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (json.dumps({"error": STATUS}).encode(), errors.TaskNotFoundError),
        (b'{"error": {"code": -32001, "message": "gone"}}', errors.TaskNotFoundError),
        (b'{"error": {"odd": 1}}', errors.A2ASSEParseError),
        (b'{"error": "gone"}', errors.A2ASSEParseError),
        (b"{}", errors.A2AEmptyResultError),
        (b" null ", errors.A2AEmptyResultError),
        (b"", errors.A2ASSEParseError),
        (b"ping", errors.A2ASSEParseError),
        (b'{"task": {"id": []}}', errors.A2ASSEParseError),
    ],
)
def test_data_that_is_no_event_is_an_error(data: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        made("resubscribe", id="t").parse_event(data)
    assert type(caught.value) is kind


def test_an_event_may_have_a_member_named_error_beside_others() -> None:
    data = json.dumps({"error": {"code": -32001}, "task": TASK}).encode()
    assert isinstance(made("resubscribe", id="t").parse_event(data), Task)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 9) | st.sampled_from(["t", "task"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["id", "error", "task", "status", "kind", "code", "tasks", "details"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=80)
@given(json_values, st.sampled_from(["get_task", "list_tasks", "resubscribe"]))
def test_any_json_is_parsed_or_is_an_error_of_ours(value: Any, name: str) -> None:
    call = made(name, id="t")
    data = json.dumps(value).encode()
    for parse in (
        (call.parse_response, call.parse_event)
        if call.operation.streams
        else (call.parse_response,)
    ):
        try:
            parse(data)
        except errors.A2AError:
            continue
    assert isinstance(call.response_error(ResponseHead(404, Headers()), data), errors.A2AError)
