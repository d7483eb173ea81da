"""The rules for received push notifications: a table of requests, and the events of payloads."""

import email.message
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from coreason_client import ArgumentError
from coreason_client.a2a import (
    A2APushError,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
    read_push,
)
from coreason_client.a2a.push_receiver import PushRules

TOKEN = "token-of-the-task"
BEARER = "Bearer credentials-of-the-agent"
GOOD = {"X-A2A-Notification-Token": TOKEN, "Authorization": BEARER}
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
IDS = {"taskId": "t", "contextId": "c"}
MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Hello"}]}
OLD_TASK = {
    "kind": "task",
    "id": "t",
    "contextId": "c",
    "status": {"state": "input-required"},
    "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": "Hello"}]}],
}
BODY = json.dumps({"task": TASK}).encode()


def read(body: Any, **headers: str) -> Any:
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_push(GOOD | headers, encoded, token=TOKEN, authorization=BEARER)


EVENTS: dict[str, tuple[Any, type[Any], str]] = {
    "a task": ({"task": TASK}, Task, ""),
    "a message": ({"message": MESSAGE}, Message, "Hello"),
    "a status": (
        {"statusUpdate": {**IDS, "status": {"state": "TASK_STATE_COMPLETED"}}},
        TaskStatusUpdateEvent,
        "",
    ),
    "an artifact": (
        {"artifactUpdate": {**IDS, "artifact": {"artifactId": "a", "parts": [{"text": "Hi"}]}}},
        TaskArtifactUpdateEvent,
        "Hi",
    ),
    "empty members": ({"task": TASK, "message": None, "statusUpdate": None}, Task, ""),
    "an unknown member": ({"task": TASK, "sentAt": "now"}, Task, ""),
    "a task of 0.3": (OLD_TASK, Task, "Hello"),
    "a task of 0.3 without a kind": (
        {name: value for name, value in OLD_TASK.items() if name != "kind"},
        Task,
        "Hello",
    ),
    "a status of 0.3": (
        {"kind": "status-update", **IDS, "final": True, "status": {"state": "completed"}},
        TaskStatusUpdateEvent,
        "",
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_payloads_of_both_versions_become_events(name: str) -> None:
    body, kind, text = EVENTS[name]
    event = read(body)
    assert isinstance(event, kind)
    assert event.text == text


def test_a_task_of_0_3_has_the_form_of_1_0() -> None:
    event = read(OLD_TASK)
    assert event.status.state is TaskState.INPUT_REQUIRED
    assert event.artifacts[0].parts[0].text == "Hello"


def test_a_field_of_a_later_version_is_kept() -> None:
    assert read({"task": {**TASK, "generation": 7}}).model_extra == {"generation": 7}


NOT_EVENTS: dict[str, Any] = {
    "not JSON": b"<html>",
    "empty": b"",
    "a list": [],
    "null": None,
    "a number": 7,
    "an empty object": {},
    "an unknown event": {"reactionUpdate": {}},
    "two events": {"task": TASK, "message": MESSAGE},
    "a wrong task": {"task": {"id": 7}},
    "a task that is text": {"task": "t"},
    "a wrong task of 0.3": {"kind": "task", "id": "t", "status": 7},
    "an unknown kind": {"kind": "reaction", "id": "t"},
    "a JSON-RPC envelope": {"jsonrpc": "2.0", "result": {"task": TASK}},
    "deeply nested": b"[" * 5000,
}


@pytest.mark.parametrize("name", NOT_EVENTS)
def test_other_payloads_are_refused_with_400(name: str) -> None:
    with pytest.raises(A2APushError, match="the push notification is not valid") as caught:
        read(NOT_EVENTS[name])
    assert caught.value.status == 400


@given(st.binary(max_size=200) | st.builds(lambda v: json.dumps(v).encode(), st.from_type(dict)))
def test_no_body_raises_another_error(body: bytes) -> None:
    try:
        read(body)
    except A2APushError as error:
        assert error.status == 400  # noqa: PT017 - both outcomes are right


HEADERS: dict[str, tuple[dict[str, str], int, str]] = {
    "no token": ({"X-A2A-Notification-Token": ""}, 403, "is wrong"),
    "another token": ({"X-A2A-Notification-Token": "token-of-another"}, 403, "is wrong"),
    "half of the token": ({"X-A2A-Notification-Token": TOKEN[:-1]}, 403, "is wrong"),
    "a longer token": ({"X-A2A-Notification-Token": f"{TOKEN}x"}, 403, "is wrong"),
    "a token in capitals": ({"X-A2A-Notification-Token": TOKEN.upper()}, 403, "is wrong"),
    "other credentials": ({"Authorization": "Bearer of-another"}, 401, "is wrong"),
    "another scheme": ({"Authorization": BEARER.replace("Bearer", "Basic")}, 401, "is wrong"),
    "credentials in capitals": ({"Authorization": BEARER.upper()}, 401, "is wrong"),
    "no scheme": ({"Authorization": BEARER.split()[1]}, 401, "is wrong"),
    "text": ({"Content-Type": "text/plain"}, 415, "got 'text/plain'"),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "content type"),
    "compressed": ({"Content-Encoding": "gzip"}, 415, "compressed, got 'gzip'"),
    "a large body": ({"Content-Length": "10000001"}, 413, "larger than 10000000"),
    "a huge length": ({"Content-Length": "9" * 5000}, 413, "larger than 10000000"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_request_is_refused_for_its_headers(name: str) -> None:
    headers, status, words = HEADERS[name]
    with pytest.raises(A2APushError, match=words) as caught:
        read({"task": TASK}, **headers)
    assert caught.value.status == status
    for secret in (TOKEN, BEARER.split()[1]):
        assert secret.lower() not in str(caught.value).lower()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "application/json"},
        {"Content-Type": "application/json; charset=utf-8"},
        {"Content-Type": "Application/A2A+JSON"},
        {"Content-Encoding": "identity"},
        {"Content-Length": "17"},
        {"Content-Length": "many"},
        {"Authorization": BEARER.replace("Bearer", "bearer")},
        {"Authorization": BEARER.replace(" ", "  ")},
    ],
)
def test_harmless_differences_are_accepted(headers: dict[str, str]) -> None:
    assert read({"task": TASK}, **headers).id == "t"


def refused(headers: Any = GOOD, method: str = "POST", **options: Any) -> A2APushError:
    with pytest.raises(A2APushError) as caught:
        read_push(headers, BODY, method=method, **options)
    return caught.value


def test_missing_headers_are_named() -> None:
    assert "Notification-Token header is missing" in str(refused({}, token=TOKEN))
    error = refused({}, authorization=[BEARER, "Basic eDp5", "bearer another"])
    assert "Authorization header is missing" in str(error)
    assert (error.status, error.headers) == (401, {"WWW-Authenticate": "Bearer, Basic"})


def test_a_header_that_is_sent_twice_is_refused() -> None:
    pairs = [("x-a2a-notification-token", TOKEN), ("X-A2A-Notification-Token", TOKEN)]
    error = refused(pairs, token=TOKEN)
    assert (error.status, str(error).endswith("is sent more than once")) == (403, True)


def test_headers_of_frameworks_are_accepted() -> None:
    message = email.message.Message()
    message["x-a2a-notification-token"] = TOKEN
    starlette = Headers({"X-A2A-Notification-Token": TOKEN})
    for headers in (message, starlette, list(GOOD.items()), iter(GOOD.items())):
        kind: Any = headers
        assert read_push(kind, BODY, token=TOKEN).text == ""
    twice = Headers(raw=[(b"x-a2a-notification-token", TOKEN.encode())] * 2)
    assert refused(twice, token=TOKEN).status == 403


@pytest.mark.parametrize("method", ["GET", "PUT", "post", "OPTIONS"])
def test_other_methods_are_refused(method: str) -> None:
    error = refused(method=method, token=TOKEN)
    assert (error.status, error.headers) == (405, {"Allow": "POST"})


def test_the_size_of_the_body_itself_is_limited() -> None:
    assert refused(token=TOKEN, max_body_bytes=len(BODY) - 1).status == 413
    assert read_push(GOOD, BODY, token=TOKEN, max_body_bytes=len(BODY)).text == ""


def test_several_values_and_a_function_of_values() -> None:
    accepted = ["first-token"]
    options: dict[str, Any] = {"token": lambda: accepted}
    assert refused(**options).status == 403
    accepted.append(TOKEN)
    assert read_push(GOOD, BODY, **options).text == ""
    assert read_push(GOOD, BODY, token={"other", TOKEN}).text == ""
    assert refused(token=list).status == 403  # no token is accepted now
    assert refused({"X-A2A-Notification-Token": ""}, token=lambda: "").status == 403


def test_every_value_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return one == other

    monkeypatch.setattr("coreason_client.a2a.push_receiver.compare_digest", compare)
    read_push(GOOD, BODY, token=[TOKEN, "second", "third"])
    assert compared == [TOKEN.encode(), b"second", b"third"]


def test_a_token_that_is_not_ascii_can_be_compared() -> None:
    wire = "é".encode().decode("latin-1")
    headers = {"X-A2A-Notification-Token": wire}
    assert read_push(headers, BODY, token="é").text == ""
    assert refused({"X-A2A-Notification-Token": "\u4e00"}, token=TOKEN).status == 403


def test_requests_without_credentials_must_be_allowed_explicitly() -> None:
    with pytest.raises(TypeError, match="allow_unauthenticated"):
        read_push({}, BODY)
    assert read_push({}, BODY, allow_unauthenticated=True).text == ""


WRONG_ARGUMENTS: list[Any] = [
    {"token": ""},
    {"token": []},
    {"token": ["a-secret-value", " "]},
    {"token": "a-secret-value\n"},
    {"authorization": "a-secret-value"},
    {"token": "a-secret-value", "max_body_bytes": 0},
]


@pytest.mark.parametrize("options", WRONG_ARGUMENTS)
def test_wrong_arguments(options: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        PushRules(**options)
    assert "secret" not in str(caught.value)
