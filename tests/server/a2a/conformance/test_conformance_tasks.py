"""Tasks: read, listed and cancelled."""

from typing import Any

import pytest

from .driver import JSON, Driver, Refused, violations_in
from .drivers import HTTPDriver
from .messages import COMPLETED, WORKING, completed, fresh, held, interrupted, message, text_of
from .shapes import check
from .sites import Site

UNKNOWN = ["unknown", "00000000-0000-4000-8000-000000000000"]


@pytest.mark.conforms("CORE-GET-001")
def test_a_task_is_read_as_it_was_answered(ann: Driver) -> None:
    task = completed(ann)
    read = ann.call("GetTask", {"id": task["id"]})
    check("Task", read)
    assert read == task


def test_a_running_task_is_read_as_far_as_it_is(ann: Driver, server: Site) -> None:
    message_id = fresh("held")
    server.stage.say(message_id, "one ", "two ")
    with ann.stream("SendStreamingMessage", message(message_id)) as events:
        task_id = next(events).body["id"]
        assert [next(events).kind for _ in range(2)] == ["artifactUpdate"] * 2
        read = ann.call("GetTask", {"id": task_id})
        assert (read["status"]["state"], text_of(read)) == (WORKING, "one two ")
        server.stage.finish(message_id)
        assert list(events)[-1].body["status"]["state"] == COMPLETED


@pytest.mark.conforms("CORE-GET-002", "CORE-CANCEL-003")
@pytest.mark.parametrize("operation", ["GetTask", "CancelTask"])
@pytest.mark.parametrize("task_id", UNKNOWN)
def test_unknown_tasks(ann: Driver, operation: str, task_id: str) -> None:
    with pytest.raises(Refused) as refused:
        ann.call(operation, {"id": task_id})
    assert refused.value.reason == "TASK_NOT_FOUND"


# The history.


def conversation(ann: Driver) -> JSON:
    """Return a task with three messages."""
    task = interrupted(ann, text="First.", metadata={"kept": [1]})
    answered: JSON = ann.call("SendMessage", message(text="Second.", taskId=task["id"]))["task"]
    return answered


@pytest.mark.conforms("CORE-HIST-004", "CORE-HIST-005", "CORE-HIST-006")
def test_the_history_has_all_messages_in_order_and_unchanged(ann: Driver) -> None:
    task = conversation(ann)
    history = ann.call("GetTask", {"id": task["id"], "historyLength": 10})["history"]
    texts = [(one["role"], one["parts"]) for one in history]
    assert texts == [
        ("ROLE_USER", [{"text": "First."}]),
        ("ROLE_AGENT", [{"text": "What else?"}]),
        ("ROLE_USER", [{"text": "Second."}]),
    ]
    assert history[0]["metadata"] == {"kept": [1]}
    assert {one["taskId"] for one in history} == {task["id"]}


@pytest.mark.conforms("CORE-HIST-001", "CORE-HIST-002")
@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_the_history_is_as_long_as_the_client_wants(ann: Driver, length: int) -> None:
    task = conversation(ann)
    read = ann.call("GetTask", {"id": task["id"], "historyLength": length})
    assert read.get("history", []) == task["history"][3 - length :]
    assert ("history" in read) is (length > 0)


@pytest.mark.conforms("CORE-HIST-002", "CORE-HIST-003")
@pytest.mark.parametrize("length", [0, 1])
def test_the_history_of_an_answer(ann: Driver, length: int) -> None:
    task = interrupted(ann)
    params = {**message(taskId=task["id"]), "configuration": {"historyLength": length}}
    answered = ann.call("SendMessage", params)["task"]
    assert len(answered.get("history", [])) == length


# Lists.


def context_of(ann: Driver, count: int) -> tuple[str, list[str]]:
    """Return a new context and the ids of its tasks, the latest first."""
    context = fresh("context")
    ids = [completed(ann, contextId=context)["id"] for _ in range(count)]
    return context, ids[::-1]


@pytest.mark.conforms("CORE-LIST-002", "CORE-LIST-003", "CORE-LIST-004")
def test_pages_have_the_latest_task_first_and_end_with_an_empty_token(ann: Driver) -> None:
    context, expected = context_of(ann, 5)
    found: list[str] = []
    times: list[str] = []
    token = ""
    for size in (2, 2, 1):
        page = ann.call("ListTasks", {"contextId": context, "pageSize": 2, "pageToken": token})
        check("ListTasksResponse", page)
        assert (len(page["tasks"]), page["pageSize"], page["totalSize"]) == (size, 2, 5)
        found += [task["id"] for task in page["tasks"]]
        times += [task["status"]["timestamp"] for task in page["tasks"]]
        token = page["nextPageToken"]
        assert bool(token) is (len(found) < 5)
    assert found == expected
    assert times == sorted(times, reverse=True)


@pytest.mark.conforms("CORE-LIST-004")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_page_that_is_the_last_one_has_an_empty_token(ann: Driver, count: int) -> None:
    context, _ = context_of(ann, count)
    page = ann.call("ListTasks", {"contextId": context, "pageSize": 2})
    assert len(page["tasks"]) == count
    assert page["nextPageToken"] == ""


@pytest.mark.conforms("CORE-LIST-003")
def test_a_change_of_the_status_moves_a_task_to_the_top(ann: Driver) -> None:
    context = fresh("context")
    older = interrupted(ann, contextId=context)["id"]
    newer = completed(ann, contextId=context)["id"]
    ids = [task["id"] for task in ann.call("ListTasks", {"contextId": context})["tasks"]]
    assert ids == [newer, older]
    ann.call("SendMessage", message(taskId=older))
    ids = [task["id"] for task in ann.call("ListTasks", {"contextId": context})["tasks"]]
    assert ids == [older, newer]


@pytest.mark.conforms("CORE-LIST-005")
def test_artifacts_are_listed_only_if_they_are_wanted(ann: Driver) -> None:
    context, _ = context_of(ann, 1)
    for params in ({}, {"includeArtifacts": False}):
        [task] = ann.call("ListTasks", {"contextId": context, **params})["tasks"]
        assert "artifacts" not in task
    [task] = ann.call("ListTasks", {"contextId": context, "includeArtifacts": True})["tasks"]
    assert text_of(task) == "Hello from TCK"


def test_tasks_are_listed_by_state_and_by_time(ann: Driver) -> None:
    context = fresh("context")
    waiting = interrupted(ann, contextId=context)
    done = completed(ann, contextId=context)

    def listed(**params: Any) -> list[str]:
        page = ann.call("ListTasks", {"contextId": context, **params})
        return [task["id"] for task in page["tasks"]]

    assert listed(status="TASK_STATE_COMPLETED") == [done["id"]]
    assert listed(status="TASK_STATE_INPUT_REQUIRED") == [waiting["id"]]
    assert listed(status="TASK_STATE_WORKING") == []
    assert listed(statusTimestampAfter="2999-01-01T00:00:00Z") == []
    assert len(listed(statusTimestampAfter="2001-01-01T00:00:00Z")) == 2
    [task] = ann.call("ListTasks", {"contextId": context, "pageSize": 1, "historyLength": 0})[
        "tasks"
    ]
    assert "history" not in task


def test_a_message_that_answers_is_no_task(ann: Driver) -> None:
    context = fresh("context")
    ann.call("SendMessage", message(fresh("tck-message-response"), contextId=context))
    page = ann.call("ListTasks", {"contextId": context})
    assert (page["tasks"], page["totalSize"]) == ([], 0)


@pytest.mark.conforms("CORE-ERR-002")
@pytest.mark.parametrize(
    "params",
    [{"pageSize": 0}, {"pageSize": 101}, {"pageToken": "not a token"}, {"historyLength": -1}],
    ids=lambda params: next(iter(params)),
)
def test_wrong_parameters_of_a_list(ann: Driver, params: JSON) -> None:
    check_refused_list(ann, params)


@pytest.mark.conforms("CORE-ERR-002")
@pytest.mark.parametrize(
    "params",
    [{"status": "COMPLETED"}, {"statusTimestampAfter": "yesterday"}],
    ids=lambda params: next(iter(params)),
)
def test_wrong_parameters_of_a_list_that_only_json_can_have(
    http_ann: HTTPDriver, params: JSON
) -> None:
    check_refused_list(http_ann, params)


def check_refused_list(ann: Driver, params: JSON) -> None:
    with pytest.raises(Refused) as refused:
        ann.call("ListTasks", params)
    assert refused.value.reason == "INVALID_PARAMS"
    assert violations_in(refused.value.error)[0]["field"] == next(iter(params))


# Cancelling.


@pytest.mark.conforms("CORE-CANCEL-001")
def test_a_running_task_is_cancelled(ann: Driver) -> None:
    task, _ = held(ann)
    cancelled = ann.call("CancelTask", {"id": task["id"]})
    check("Task", cancelled)
    assert cancelled["id"] == task["id"]
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    assert ann.call("GetTask", {"id": task["id"]}) == cancelled


@pytest.mark.conforms("CORE-CANCEL-001")
def test_a_task_that_requires_input_is_cancelled(ann: Driver) -> None:
    task = interrupted(ann)
    cancelled = ann.call("CancelTask", {"id": task["id"]})
    check("Task", cancelled)
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.conforms("CORE-CANCEL-002")
def test_a_task_that_is_over_cannot_be_cancelled(ann: Driver) -> None:
    task = completed(ann)
    with pytest.raises(Refused) as refused:
        ann.call("CancelTask", {"id": task["id"]})
    assert refused.value.reason == "TASK_NOT_CANCELABLE"
    assert ann.call("GetTask", {"id": task["id"]}) == task
