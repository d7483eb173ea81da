"""Tasks that wait for an authorization."""

from typing import Any

import httpx2
import pytest

from .driver import Driver
from .drivers import Connect, sse
from .messages import AUTH_REQUIRED, COMPLETED, WORKING, fresh, message, text_of, unauthorized
from .shapes import check
from .sites import Site

QUESTION = [{"text": "Sign in at https://example.com/login."}]


@pytest.mark.conforms("AUTH-INTASK-001", "AUTH-INTASK-002", "AUTH-INTASK-003")
def test_an_agent_asks_for_an_authorization_with_a_task(ann: Driver) -> None:
    context = fresh("context")
    result = ann.call("SendMessage", message(fresh("sign-in"), contextId=context))
    check("SendMessageResponse", result)
    status = result["task"]["status"]
    assert status["state"] == AUTH_REQUIRED
    assert (status["message"]["role"], status["message"]["parts"]) == ("ROLE_AGENT", QUESTION)
    assert ann.call("GetTask", {"id": result["task"]["id"]}) == result["task"]
    for state, count in ((AUTH_REQUIRED, 1), ("TASK_STATE_INPUT_REQUIRED", 0)):
        page = ann.call("ListTasks", {"contextId": context, "status": state})
        assert page["totalSize"] == count


@pytest.mark.conforms("AUTH-INTASK-004", "AUTH-INTASK-006")
def test_the_authorization_comes_another_way_and_a_message_continues(
    ann: Driver, server: Site
) -> None:
    task = unauthorized(ann)
    params = message(fresh("sign-in"), "My password is 1234.", taskId=task["id"])
    refused = ann.call("SendMessage", params)["task"]
    assert (refused["id"], refused["status"]["state"]) == (task["id"], AUTH_REQUIRED)
    server.stage.authorize(task["contextId"])
    params = message(fresh("sign-in"), "Done.", taskId=task["id"])
    done = ann.call("SendMessage", params)["task"]
    assert (done["status"]["state"], text_of(done)) == (COMPLETED, "You are signed in.")
    roles = [said["role"].removeprefix("ROLE_") for said in done["history"]]
    assert roles == ["USER", "AGENT", "USER", "AGENT", "USER"]


@pytest.mark.conforms("AUTH-INTASK-005")
def test_subscriptions_to_such_a_task_stay_open(plain_server: Site, connect: Connect) -> None:
    ann = connect(plain_server, "ann-key")
    with ann.stream("SendStreamingMessage", message(fresh("sign-in"))) as stream:
        task, *_, last = (event.body for event in stream)  # the agent has returned
    assert last["status"]["state"] == AUTH_REQUIRED
    with ann.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        assert next(stream).body["status"]["state"] == AUTH_REQUIRED
        again = message(fresh("sign-in"), "Why?", taskId=task["id"])
        assert ann.call("SendMessage", again)["task"]["status"]["state"] == AUTH_REQUIRED
        plain_server.stage.authorize(task["contextId"])
        ann.call("SendMessage", message(fresh("sign-in"), taskId=task["id"]))
        states = [event.body["status"]["state"] for event in stream if "status" in event.body]
    assert states == [WORKING, AUTH_REQUIRED, WORKING, COMPLETED]


@pytest.mark.conforms("CORE-CANCEL-001")
def test_such_a_task_is_cancelled(ann: Driver) -> None:
    cancelled = ann.call("CancelTask", {"id": unauthorized(ann)["id"]})
    check("Task", cancelled)
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_stream_of_0_3_ends_with_its_last_status(http: httpx2.Client, plain_server: Site) -> None:
    said: Any = {"messageId": fresh("sign-in"), "role": "user", "kind": "message"}
    params = {"message": {**said, "parts": [{"kind": "text", "text": "Hello."}]}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": params}
    headers = {"Authorization": "Bearer ann-key"}
    with http.stream("POST", plain_server.a2a, json=body, headers=headers) as response:
        events = [event["result"] for event, _ in sse(response.iter_raw())]
    assert [event["kind"] for event in events] == ["task", "status-update"]
    assert events[-1]["status"]["state"] == "auth-required"
    assert events[-1]["status"]["message"]["parts"] == [{"kind": "text", **QUESTION[0]}]
    assert events[-1]["final"] is True
