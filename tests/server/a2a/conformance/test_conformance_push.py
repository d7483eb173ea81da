"""Push notifications: their configurations, and what arrives at a webhook."""

from typing import Any

import pytest

from ..pushes import check_no_gap, text_of
from .driver import JSON, Driver, Refused
from .messages import COMPLETED, INPUT_REQUIRED, fresh, interrupted, message
from .shapes import check
from .sites import Site
from .webhooks import Webhooks

SECRET = {"scheme": "Bearer", "credentials": "s3cret"}


def create(ann: Driver, task_id: str, url: str, **more: Any) -> JSON:
    """Return a new configuration."""
    params = {"taskId": task_id, "url": url, **more}
    created: JSON = ann.call("CreateTaskPushNotificationConfig", params)
    return created


def listed(ann: Driver, task_id: str) -> list[str]:
    """Return the ids of the configurations of a task."""
    page = ann.call("ListTaskPushNotificationConfigs", {"taskId": task_id})
    return [config["id"] for config in page["configs"]]


@pytest.mark.conforms("PUSH-CREATE-001", "PUSH-GET-001", "PUSH-LIST-001")
def test_configurations_are_created_read_and_listed(ann: Driver, webhooks: Webhooks) -> None:
    task_id, url = interrupted(ann)["id"], webhooks.url("/" + fresh("hook"))
    named = create(ann, task_id, url, id="mine", token="t0ken", authentication=SECRET)
    unnamed = create(ann, task_id, f"{url}/other")
    assert (named["id"], named["taskId"], named["url"]) == ("mine", task_id, url)
    assert unnamed["id"] not in ("", "mine")
    for config in (named, unnamed):
        params = {"taskId": task_id, "id": config["id"]}
        assert ann.call("GetTaskPushNotificationConfig", params) == config
    assert sorted(listed(ann, task_id)) == sorted(["mine", unnamed["id"]])
    assert "s3cret" not in str(named)
    assert "t0ken" not in str(named)


@pytest.mark.conforms("PUSH-GET-002", "PUSH-DEL-001", "PUSH-DEL-002")
def test_a_deleted_configuration_does_not_exist(ann: Driver, webhooks: Webhooks) -> None:
    task_id, url = interrupted(ann)["id"], webhooks.url("/" + fresh("hook"))
    for name in ("deleted", "kept"):
        create(ann, task_id, url, id=name)
    for _ in range(2):
        ann.call("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "deleted"})
        assert listed(ann, task_id) == ["kept"]
    for name in ("deleted", "unknown"):
        with pytest.raises(Refused) as refused:
            ann.call("GetTaskPushNotificationConfig", {"taskId": task_id, "id": name})
        assert refused.value.reason == "TASK_NOT_FOUND"


@pytest.mark.conforms("PUSH-DELIVER-001", "PUSH-DELIVER-002", "PUSH-DELIVER-003")
def test_every_event_reaches_every_webhook(ann: Driver, server: Site, webhooks: Webhooks) -> None:
    message_id, paths = fresh("held"), ["/" + fresh("hook") for _ in range(2)]
    with_message, created = (
        JSON(url=webhooks.url(path), token=f"token of {path}", authentication=SECRET)
        for path in paths
    )
    configuration = {"returnImmediately": True, "taskPushNotificationConfig": with_message}
    sent = ann.call("SendMessage", {**message(message_id), "configuration": configuration})
    create(ann, sent["task"]["id"], **created)
    server.stage.say(message_id, "one ", "two ", "three ")
    server.stage.finish(message_id)
    for path in paths:
        received = webhooks.until(path, COMPLETED)
        bodies = [notification.body for notification in received]
        assert "task" in bodies[0]
        check_no_gap(bodies, after=bodies[0]["task"]["metadata"]["generation"] - 1)
        assert text_of(bodies) == "one two three "
        for notification in received:
            check("StreamResponse", notification.body)
            assert notification.headers["Content-Type"] == "application/a2a+json"
            assert notification.headers["Authorization"] == "Bearer s3cret"
            assert notification.headers["X-A2A-Notification-Token"] == f"token of {path}"


@pytest.mark.conforms("PUSH-CREATE-002", "PUSH-DEL-001")
def test_a_configuration_is_used_until_it_is_deleted(ann: Driver, webhooks: Webhooks) -> None:
    task_id = interrupted(ann)["id"]
    kept, deleted = ("/" + fresh("hook") for _ in range(2))
    for name, path in (("kept", kept), ("deleted", deleted)):
        create(ann, task_id, webhooks.url(path), id=name)
        webhooks.until(path, INPUT_REQUIRED)
    ann.call("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "deleted"})
    before = len(webhooks.received(deleted))
    ann.call("SendMessage", message(taskId=task_id))
    webhooks.until(kept, COMPLETED)
    assert len(webhooks.received(deleted)) == before
