"""Messages: what answers them, the ids they get, and what is refused."""

from itertools import product
from typing import Any

import pytest

from tests.each import each

from .driver import Connections, Driver, Refused
from .drivers import HTTP_DRIVERS, Connect, HTTPDriver
from .messages import (
    COMPLETED,
    INPUT_REQUIRED,
    WORKING,
    at_once,
    completed,
    fresh,
    held,
    interrupted,
    message,
    text_of,
    wait_for,
)
from .shapes import check
from .sites import Site


@pytest.mark.conforms("CORE-SEND-001", "DM-TASK-001", "DM-STATUS-001", "DM-SERIAL-004")
def test_a_message_is_answered_with_a_task(ann: Driver) -> None:
    result = ann.call("SendMessage", message())
    check("SendMessageResponse", result)
    assert result["task"]["status"]["state"] == COMPLETED
    assert text_of(result["task"]) == "Hello from TCK"


@pytest.mark.conforms("CORE-SEND-001", "DM-MSG-001", "DM-MSG-002", "CORE-MULTI-001a")
def test_a_message_is_answered_with_a_message(ann: Driver) -> None:
    result = ann.call("SendMessage", message(fresh("tck-message-response")))
    check("SendMessageResponse", result)
    assert result["message"]["role"] == "ROLE_AGENT"
    assert result["message"]["parts"] == [{"text": "Direct message response"}]
    assert result["message"]["contextId"]
    assert "taskId" not in result["message"]  # there is none


@pytest.mark.conforms("DM-ART-001", "DM-PART-001", "DM-TASK-002", "DM-SERIAL-002")
@pytest.mark.parametrize(
    ("behaviour", "parts"),
    [
        ("tck-artifact-text", [{"text": "Generated text content"}]),
        (
            "tck-artifact-file",
            [{"raw": "dGNr", "filename": "output.txt", "mediaType": "text/plain"}],
        ),
        (
            "tck-artifact-file-url",
            [
                {
                    "url": "https://example.com/output.txt",
                    "filename": "output.txt",
                    "mediaType": "text/plain",
                }
            ],
        ),
        ("tck-artifact-data", [{"data": {"key": "value", "count": 42}}]),
    ],
)
def test_artifacts(ann: Driver, behaviour: str, parts: list[Any]) -> None:
    task = ann.call("SendMessage", message(fresh(behaviour)))["task"]
    check("Task", task)
    assert task["status"]["state"] == COMPLETED
    [artifact] = task["artifacts"]
    assert artifact["parts"] == parts


def test_a_task_that_the_agent_rejects(ann: Driver) -> None:
    task = ann.call("SendMessage", message(fresh("tck-reject-task")))["task"]
    check("Task", task)
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert task["status"]["message"]["parts"] == [{"text": "rejected"}]


@pytest.mark.conforms("CORE-SEND-002")
@pytest.mark.parametrize("behaviour", ["tck-complete-task", "tck-reject-task"])
def test_a_task_that_is_over_accepts_no_message(ann: Driver, behaviour: str) -> None:
    task = ann.call("SendMessage", message(fresh(behaviour)))["task"]
    with pytest.raises(Refused) as refused:
        ann.call("SendMessage", message(taskId=task["id"]))
    assert refused.value.reason == "UNSUPPORTED_OPERATION"


@pytest.mark.conforms("CORE-SEND-003")
def test_a_media_type_that_the_agent_does_not_accept(ann: Driver) -> None:
    odd = [{"raw": "dGNr", "mediaType": "application/x-unsupported-tck-type"}]
    with pytest.raises(Refused) as refused:
        ann.call("SendMessage", message(parts=odd))
    assert refused.value.reason == "CONTENT_TYPE_NOT_SUPPORTED"


# The mode of execution.


@pytest.mark.conforms("CORE-EXECUTION-MODE-001")
def test_the_answer_waits_for_the_end_of_the_turn(ann: Driver, server: Site) -> None:
    message_id = fresh("held")
    server.stage.say(message_id, "one ", "two ")
    server.stage.finish(message_id)
    task = ann.call("SendMessage", message(message_id))["task"]
    assert (task["status"]["state"], text_of(task)) == (COMPLETED, "one two ")
    assert interrupted(ann)["status"]["state"] == INPUT_REQUIRED


@pytest.mark.conforms("CORE-EXECUTION-MODE-002")
def test_a_client_can_have_the_task_at_once(ann: Driver, server: Site) -> None:
    task, message_id = held(ann)
    check("Task", task)
    assert task["status"]["state"] == WORKING
    server.stage.finish(message_id)
    wait_for(ann, task["id"], COMPLETED)


# Contexts and ids.


@pytest.mark.conforms("CORE-MULTI-001", "CORE-MULTI-001a", "CORE-MULTI-003")
def test_a_message_without_ids_gets_them(ann: Driver) -> None:
    first, second = completed(ann), completed(ann)
    assert first["contextId"]
    assert first["contextId"] != second["contextId"]
    assert first["id"] != second["id"]


@pytest.mark.conforms("CORE-MULTI-002", "CORE-MULTI-003")
def test_the_context_of_a_client_is_kept(ann: Driver) -> None:
    tasks = [completed(ann, contextId="its own context") for _ in range(2)]
    assert [task["contextId"] for task in tasks] == ["its own context"] * 2
    assert tasks[0]["id"] != tasks[1]["id"]


@pytest.mark.conforms("CORE-MULTI-002a")
def test_a_context_that_cannot_be_accepted_is_refused(ann: Driver) -> None:
    with pytest.raises(Refused) as refused:
        ann.call("SendMessage", message(contextId="c" * 257))
    assert refused.value.reason == "INVALID_PARAMS"


@pytest.mark.conforms("CORE-MULTI-004")
@pytest.mark.parametrize("task_id", ["unknown", "00000000-0000-4000-8000-000000000000"])
def test_a_message_to_an_unknown_task(ann: Driver, task_id: str) -> None:
    with pytest.raises(Refused) as refused:
        ann.call("SendMessage", message(taskId=task_id))
    assert refused.value.reason == "TASK_NOT_FOUND"


@pytest.mark.conforms("CORE-MULTI-005")
def test_a_message_to_a_task_has_its_context(ann: Driver) -> None:
    task = interrupted(ann)
    answered = ann.call("SendMessage", message(taskId=task["id"]))["task"]
    assert (answered["id"], answered["contextId"]) == (task["id"], task["contextId"])
    assert answered["status"]["state"] == COMPLETED


@pytest.mark.conforms("CORE-MULTI-006")
def test_a_context_that_is_not_that_of_the_task_is_refused(ann: Driver) -> None:
    task = interrupted(ann)
    with pytest.raises(Refused) as refused:
        ann.call("SendMessage", message(taskId=task["id"], contextId="another"))
    assert refused.value.reason == "INVALID_PARAMS"
    assert ann.call("GetTask", {"id": task["id"]})["status"]["state"] == INPUT_REQUIRED


# What is checked.

BAD: list[Any] = [
    {},
    {"message": {"role": "ROLE_USER", "parts": [{"text": "no id"}]}},
    {"message": {"messageId": "m", "role": "ROLE_USER"}},
    message(parts=[]),
    message(parts=[{}]),
    message(role="ROLE_AGENT"),
    {**message(), "configuration": {"historyLength": -1}},
]
BAD_JSON: list[Any] = [  # gRPC has types, so its clients cannot send them
    {"message": None},
    {"message": "Hello."},
    message(contextId=7),
    message(parts=[{"text": "a", "data": 1}]),
    message(parts=["text"]),
    {**message(), "configuration": 7},
    {**message(), "configuration": {"historyLength": "many"}},
    {**message(), "metadata": "not an object"},
    {**message(), "metadata": [1]},
]


@pytest.mark.conforms("CORE-ERR-001", "CORE-ERR-002")
@each(("params", "operation"), product(BAD, ["SendMessage", "SendStreamingMessage"]))
def test_wrong_parameters_are_refused_before_anything_is_done(
    plain_server: Site, connect: Connect, operation: str, params: Any
) -> None:
    check_refused(connect(plain_server, "ann-key"), operation, params)


@pytest.mark.conforms("CORE-ERR-001", "CORE-ERR-002")
@each(("params", "operation"), product(BAD_JSON, ["SendMessage", "SendStreamingMessage"]))
@pytest.mark.parametrize("binding", HTTP_DRIVERS)
def test_wrong_json_is_refused_before_anything_is_done(
    plain_server: Site, connections: Connections, binding: str, operation: str, params: Any
) -> None:
    ann = HTTP_DRIVERS[binding](connections, plain_server.a2a, "ann-key")
    check_refused(ann, operation, params)


def check_refused(ann: Driver, operation: str, params: Any) -> None:
    before = ann.call("ListTasks", {"pageSize": 1})["totalSize"]
    with pytest.raises(Refused) as refused:
        ann.call(operation, params)
    assert refused.value.reason == "INVALID_PARAMS"
    assert refused.value.error["message"]
    assert ann.call("ListTasks", {"pageSize": 1})["totalSize"] == before


@pytest.mark.conforms("DM-SERIAL-005")
def test_unknown_fields_are_ignored(http_ann: HTTPDriver) -> None:
    params = message(unknown={"a": 1}, parts=[{"text": "x", "alsoUnknown": [1]}])
    params |= {"extra": 42, "configuration": {"stillUnknown": True}}
    task = http_ann.call("SendMessage", params)["task"]
    assert task["status"]["state"] == COMPLETED
    [said] = task["history"]
    assert "unknown" not in said
    assert said["parts"] == [{"text": "x"}]


def test_a_message_that_is_sent_again_is_not_answered_twice(ann: Driver) -> None:
    params = message()
    first, again = (ann.call("SendMessage", params)["task"]["id"] for _ in range(2))
    assert first == again
    other = ann.call("SendMessage", message(params["message"]["messageId"], "Another text."))
    assert other["task"]["id"] != first


def test_a_running_task_accepts_no_message(ann: Driver, server: Site) -> None:
    task, message_id = held(ann)
    with pytest.raises(Refused) as refused:
        ann.call("SendMessage", at_once(message(taskId=task["id"])))
    assert refused.value.reason == "UNSUPPORTED_OPERATION"
    server.stage.finish(message_id)
