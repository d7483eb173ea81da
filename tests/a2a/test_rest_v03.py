"""HTTP+JSON in 0.3: what goes over the wire, in tables, and that nothing is lost on the way."""

import json
from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client._http._types import Headers, ResponseHead
from coreason_client.a2a import errors
from coreason_client.a2a._bindings import RestCall, RestChannel
from coreason_client.a2a._call import Settings
from coreason_client.a2a._dialects import OPERATIONS
from coreason_client.a2a._v03._rest import V03_REST, _part_from_rest, part_to_rest
from coreason_client.a2a.errors import A2AError, A2AHTTPError, UnsupportedOperationError
from coreason_client.a2a.transport import RestTransport
from coreason_client.a2a.types import Task, TaskState
from tests.a2a.test_dialects import structs, values, words

URL = "https://agent.example/base"


def called(name: str, **params: Any) -> RestCall:
    return RestChannel(URL, Settings(), "tenant-1", V03_REST).call(OPERATIONS[name], params)


# Requests.

MESSAGE = {
    "messageId": "m",
    "role": "ROLE_USER",
    "parts": [{"text": "hello", "mediaType": "text/plain"}],
    "referenceTaskIds": ["t0"],
    "extensions": [],
}
SENT_MESSAGE = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]}


@pytest.mark.parametrize(
    ("name", "params", "line", "body"),
    [
        (
            "send_message",
            {"message": MESSAGE},
            "POST /v1/message:send",
            {"message": SENT_MESSAGE, "configuration": {"blocking": True}},
        ),
        (
            "send_message_stream",
            {
                "message": MESSAGE,
                "metadata": {"a": 1},
                "configuration": {
                    "returnImmediately": True,
                    "historyLength": 3,
                    "acceptedOutputModes": ["text/plain"],
                    "taskPushNotificationConfig": {"url": "https://hook.example", "id": "p"},
                },
            },
            "POST /v1/message:stream",
            {
                "message": SENT_MESSAGE,
                "metadata": {"a": 1},
                "configuration": {
                    "blocking": False,
                    "historyLength": 3,
                    "acceptedOutputModes": ["text/plain"],
                    "pushNotification": {"url": "https://hook.example", "id": "p"},
                },
            },
        ),
        ("get_task", {"id": "a/b"}, "GET /v1/tasks/a%2Fb", None),
        (
            "get_task",
            {"id": "t", "historyLength": 2, "tenant": "x"},
            "GET /v1/tasks/t?historyLength=2",
            None,
        ),
        ("cancel_task", {"id": "t", "metadata": {"a": 1}}, "POST /v1/tasks/t:cancel", {}),
        ("resubscribe", {"id": "t"}, "POST /v1/tasks/t:subscribe", {}),
        (
            "create_push_config",
            {
                "taskId": "t",
                "id": "p",
                "url": "https://hook.example",
                "authentication": {"scheme": "Bearer", "credentials": "c"},
            },
            "POST /v1/tasks/t/pushNotificationConfigs",
            {
                "parent": "tasks/t",
                "configId": "p",
                "config": {
                    "name": "tasks/t/pushNotificationConfigs/p",
                    "pushNotificationConfig": {
                        "id": "p",
                        "url": "https://hook.example",
                        "authentication": {"schemes": ["Bearer"], "credentials": "c"},
                    },
                },
            },
        ),
        (
            "get_push_config",
            {"taskId": "t", "id": "p"},
            "GET /v1/tasks/t/pushNotificationConfigs/p",
            None,
        ),
        ("list_push_configs", {"taskId": "t"}, "GET /v1/tasks/t/pushNotificationConfigs", None),
        (
            "delete_push_config",
            {"taskId": "t", "id": "p"},
            "DELETE /v1/tasks/t/pushNotificationConfigs/p",
            None,
        ),
        ("get_extended_card", {}, "GET /v1/card", None),
    ],
)
def test_requests(name: str, params: dict[str, Any], line: str, body: Any) -> None:
    request = called(name, **params).request
    assert f"{request.method} {request.url.removeprefix(URL)}" == line
    assert request.headers["A2A-Version"] == "0.3"
    if body is None:
        assert request.content == b""
    else:
        assert json.loads(request.content) == body
        assert request.headers["Content-Type"] == "application/json"
    assert "a2a+json" not in request.headers["Accept"]


def test_every_operation_of_0_3_has_a_path_and_others_are_refused() -> None:
    assert set(V03_REST.paths) == set(V03_REST.methods) == set(V03_REST.encode)
    with pytest.raises(UnsupportedOperationError, match=r"0\.3 of the protocol has no list_tasks"):
        called("list_tasks")


@pytest.mark.parametrize(("version", "spoken"), [("0.3", "0.3"), ("0.3.0", "0.3"), ("1.0", "1.0")])
def test_the_version_of_a_transport(version: str, spoken: str) -> None:
    assert RestTransport(URL, version=version).version == spoken
    with pytest.raises(ValueError, match=r"version must be 1\.0 or 0\.3, got '7\.1'"):
        RestTransport(URL, version="7.1")


# Answers.

PNG = b"\x89PNG\x00\xff"
ONCE, TWICE = b64encode(PNG).decode(), b64encode(b64encode(PNG)).decode()


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"text": "a", "metadata": {}}, {"text": "a", "metadata": {}}),
        ({"file": {"fileWithUri": "https://x", "mimeType": "a/b", "name": "n"}},
         {"url": "https://x", "mediaType": "a/b", "filename": "n"}),
        ({"file": {"fileWithBytes": TWICE, "name": "n"}}, {"raw": ONCE, "filename": "n"}),
        ({"file": {"fileWithBytes": ONCE}}, {"raw": ONCE}),
        ({"file": {"fileWithBytes": ""}}, {"raw": ""}),
        ({"data": {"data": {"a": [1.0]}}}, {"data": {"a": [1.0]}}),
        ({"data": {}}, {"data": {}}),
        ({"kind": "text", "text": "a"}, {"text": "a"}),
        ({"kind": "data", "data": {"data": 1}}, {"data": {"data": 1}}),
        ({"kind": "file", "file": {"bytes": ONCE, "mimeType": "a/b"}},
         {"raw": ONCE, "mediaType": "a/b"}),
        ({"kind": "file", "file": {"uri": "https://x"}}, {"url": "https://x"}),
    ],
)  # fmt: skip
def test_parts(part: Any, expected: Any) -> None:
    assert _part_from_rest(part) == expected


IDS = {"taskId": "t", "contextId": "c"}
SAID = {"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "hi"}], "metadata": {}}


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        ({"message": SAID}, "Message", "hi"),
        ({"message": {"messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "x"}]}},
         "Message", "x"),
        ({"kind": "message", "messageId": "m", "role": "agent",
          "parts": [{"kind": "text", "text": "x"}]}, "Message", "x"),
        ({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
                   "artifacts": [{"artifactId": "a", "parts": [{"text": "done"}]}],
                   "history": [SAID]}}, "Task", "done"),
        ({"artifactUpdate": {**IDS, "artifact": {"artifactId": "a", "parts": [{"text": "w"}]},
                             "append": True}}, "TaskArtifactUpdateEvent", "w"),
        ({"other": {}}, "UnknownEvent", None),
    ],
)  # fmt: skip
def test_events(data: Any, kind: str, text: str | None) -> None:
    event = called("send_message_stream", message=MESSAGE).parse_event(json.dumps(data).encode())
    assert type(event).__name__ == kind
    assert text is None or event.text == text


def test_a_status_update_with_its_message_and_end() -> None:
    update = {**IDS, "status": {"state": "TASK_STATE_CANCELLED", "message": SAID}, "final": True}
    data = json.dumps({"statusUpdate": update}).encode()
    event: Any = called("send_message_stream", message=MESSAGE).parse_event(data)
    assert event.status.state is TaskState.CANCELED
    assert event.status.message.text == "hi"
    assert event.final is True


def test_push_configurations_and_their_names() -> None:
    inner = {"id": "p", "url": "https://hook.example", "authentication": {"schemes": ["Bearer"]}}
    named = {"name": "tasks/t/pushNotificationConfigs/p", "pushNotificationConfig": inner}
    found = called("get_push_config", taskId="t", id="p").parse_response(json.dumps(named).encode())
    assert (found.task_id, found.id, found.url) == ("t", "p", "https://hook.example")
    assert found.authentication.scheme == "Bearer"
    listing = called("list_push_configs", taskId="t")
    for body in ({"configs": [named]}, [named]):
        [config] = listing.parse_response(json.dumps(body).encode()).configs
        assert (config.task_id, config.id) == ("t", "p")
    assert listing.parse_response(b"{}").configs == []


# Errors.


@pytest.mark.parametrize(
    ("name", "status", "body", "expected"),
    [
        ("get_task", 404, {"message": "m"}, errors.TaskNotFoundError),
        ("get_extended_card", 404, {"message": "m"}, errors.ExtendedAgentCardNotConfiguredError),
        ("cancel_task", 409, {"message": "m"}, errors.TaskNotCancelableError),
        ("send_message", 415, {"message": "m"}, errors.ContentTypeNotSupportedError),
        ("send_message", 422, {"message": "m"}, errors.InvalidParamsError),
        ("send_message", 400, {"message": "m"}, errors.InvalidRequestError),
        ("resubscribe", 501, {"message": "m"}, errors.UnsupportedOperationError),
        ("create_push_config", 501, {"message": "m"}, errors.PushNotificationNotSupportedError),
        ("get_task", 500, {"message": "m", "type": "InternalError"}, errors.InternalError),
        ("get_extended_card", 400,
         {"message": "m", "type": "AuthenticatedExtendedCardNotConfiguredError"},
         errors.ExtendedAgentCardNotConfiguredError),
        ("delete_push_config", 405, {"detail": "m"}, errors.UnsupportedOperationError),
        # A failure in passing, and what a router or a proxy says, stay what they are.
        ("get_task", 500, {"message": "m"}, A2AHTTPError),
        ("get_task", 502, {"message": "m"}, A2AHTTPError),
        ("get_task", 404, {"detail": "Not Found"}, A2AHTTPError),
        ("get_task", 404, "Not Found", A2AHTTPError),
        ("get_task", 404, {"message": 7}, A2AHTTPError),
        # Newer servers say it as in 1.0.
        ("get_task", 404, {"error": {"code": 404, "message": "m", "details": [
            {"reason": "TASK_NOT_FOUND"}]}}, errors.TaskNotFoundError),
    ],
)  # fmt: skip
def test_errors(name: str, status: int, body: Any, expected: type[A2AError]) -> None:
    call = called(name, id="t", taskId="t", message=MESSAGE)
    error = call.response_error(ResponseHead(status, Headers()), json.dumps(body).encode())
    assert type(error) is expected
    assert error.status == status
    assert "m" in str(error)


def test_subscribing_turns_to_get_where_there_is_no_post() -> None:
    channel = RestChannel(URL, Settings(), None, V03_REST)
    call = channel.call(OPERATIONS["resubscribe"], {"id": "t"})
    head = ResponseHead(405, Headers())
    assert call.try_other_verb(head, call.response_error(head, b'{"detail": "Method Not Allowed"}'))
    assert channel.call(OPERATIONS["resubscribe"], {"id": "t"}).request.method == "GET"


# Any input.

parts = st.one_of(
    st.fixed_dictionaries({"text": words}),
    st.fixed_dictionaries({"raw": st.binary(max_size=9).map(lambda raw: b64encode(raw).decode())}),
    st.fixed_dictionaries({"url": words, "filename": words, "mediaType": words}),
    st.fixed_dictionaries({"data": values}),
)


@given(parts, structs)
def test_parts_come_back_as_they_were_sent(part: Any, metadata: Any) -> None:
    part = {**part, "metadata": metadata} if metadata else part
    assert _part_from_rest(json.loads(json.dumps(part_to_rest(part)))) == part


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["task", "message", "statusUpdate", "artifactUpdate", "status", "content", "parts",
                 "file", "fileWithBytes", "data", "kind", "artifact", "configs", "name", "history"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=200)
@given(json_values, st.sampled_from(sorted(V03_REST.paths)))
def test_any_answer_is_read_or_refused_with_an_error_of_ours(value: Any, name: str) -> None:
    call = called(name, id="t", taskId="t", message=MESSAGE)
    body = json.dumps(value).encode()
    with suppress(A2AError):
        found = call.parse_response(body)
        assert name != "get_task" or isinstance(found, Task)
    with suppress(A2AError):
        call.parse_event(body) if call.operation.streams else None
    assert isinstance(call.response_error(ResponseHead(404, Headers()), body), A2AError)
