"""Messages to the agent, and what the tests do with them again and again."""

import time
from typing import Any
from uuid import uuid4

from .driver import JSON, Driver

OVER = {f"TASK_STATE_{state}" for state in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")}
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
WORKING = "TASK_STATE_WORKING"
COMPLETED = "TASK_STATE_COMPLETED"


UNKNOWN: dict[str, JSON] = {
    "SendMessage": {},
    "SendStreamingMessage": {},
    "GetTask": {"id": "unknown"},
    "ListTasks": {},
    "CancelTask": {"id": "unknown"},
    "SubscribeToTask": {"id": "unknown"},
    "CreateTaskPushNotificationConfig": {"taskId": "unknown", "url": "https://example.com/hook"},
    "GetTaskPushNotificationConfig": {"taskId": "unknown", "id": "unknown"},
    "ListTaskPushNotificationConfigs": {"taskId": "unknown"},
    "DeleteTaskPushNotificationConfig": {"taskId": "unknown", "id": "unknown"},
    "GetExtendedAgentCard": {},
}
"""Every operation, with parameters that change nothing."""


def fresh(prefix: str = "tck-complete-task") -> str:
    """Return the id of a message that makes the agent behave in some way."""
    return f"{prefix}-{uuid4()}"


def message(message_id: str | None = None, text: str = "Hello.", **more: Any) -> JSON:
    """Return the parameters of a message."""
    parts = [{"text": text}]
    ids = {"messageId": message_id or fresh(), "role": "ROLE_USER"}
    return {"message": {**ids, "parts": parts, **more}}


def at_once(params: JSON) -> JSON:
    """Return the parameters of a message whose task is wanted at once."""
    return {**params, "configuration": {"returnImmediately": True}}


def completed(driver: Driver, **more: Any) -> JSON:
    """Return a new task that is completed."""
    task: JSON = driver.call("SendMessage", message(**more))["task"]
    assert task["status"]["state"] == COMPLETED
    return task


def interrupted(driver: Driver, **more: Any) -> JSON:
    """Return a new task that requires input."""
    params = message(fresh("tck-input-required"), **more)
    task: JSON = driver.call("SendMessage", params)["task"]
    assert task["status"]["state"] == INPUT_REQUIRED
    return task


def unauthorized(driver: Driver, **more: Any) -> JSON:
    """Return a new task that requires an authorization."""
    task: JSON = driver.call("SendMessage", message(fresh("sign-in"), **more))["task"]
    assert task["status"]["state"] == AUTH_REQUIRED
    return task


def held(driver: Driver) -> tuple[JSON, str]:
    """Return a new task at work, and the id of the message that the stage knows it by."""
    message_id = fresh("held")
    task: JSON = driver.call("SendMessage", at_once(message(message_id)))["task"]
    return task, message_id


def text_of(task: JSON) -> str:
    """Return the text of all artifacts of a task."""
    artifacts = task.get("artifacts", [])
    return "".join(part.get("text", "") for one in artifacts for part in one["parts"])


def wait_for(driver: Driver, task_id: str, state: str) -> JSON:
    """Return a task when it is in a state, at the latest after some seconds."""
    deadline = time.monotonic() + 10
    while True:
        task: JSON = driver.call("GetTask", {"id": task_id})
        if task["status"]["state"] == state:
            return task
        assert time.monotonic() < deadline, task
        time.sleep(0.01)
