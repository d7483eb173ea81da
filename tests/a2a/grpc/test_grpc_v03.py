"""Requests of 0.3 over gRPC, read with the official messages."""

from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as official

from coreason_client.a2a._call import Settings
from coreason_client.a2a._dialects import OPERATIONS
from coreason_client.a2a._grpc._channel import GrpcChannel
from coreason_client.a2a._v03._rest import V03_GRPC
from coreason_client.a2a.types import Task, TaskState


def sent(name: str, params: dict[str, Any]) -> Any:
    channel = GrpcChannel("http://localhost:1", Settings(), "acme", V03_GRPC)
    return channel.call(OPERATIONS[name], params)


PUSH = "tasks/t/pushNotificationConfigs/c"


@pytest.mark.parametrize(
    ("name", "params", "request_of"),
    [
        ("get_task", {"id": "t", "historyLength": 3}, official.GetTaskRequest),
        ("cancel_task", {"id": "t", "metadata": {"a": 1}}, official.CancelTaskRequest),
        ("resubscribe", {"id": "t"}, official.TaskSubscriptionRequest),
    ],
)
def test_a_task_is_named(name: str, params: dict[str, Any], request_of: Any) -> None:
    request = request_of.FromString(sent(name, params).request.content)
    assert request.name == "tasks/t"
    assert getattr(request, "history_length", 0) == params.get("historyLength", 0)


def test_push_configurations_are_named() -> None:
    ids = {"taskId": "t", "id": "c"}
    for name, kind in (
        ("get_push_config", official.GetTaskPushNotificationConfigRequest),
        ("delete_push_config", official.DeleteTaskPushNotificationConfigRequest),
    ):
        assert kind.FromString(sent(name, ids).request.content).name == PUSH
    listed = official.ListTaskPushNotificationConfigRequest.FromString(
        sent("list_push_configs", {"taskId": "t", "pageSize": 4}).request.content
    )
    assert (listed.parent, listed.page_size) == ("tasks/t", 4)
    created = official.CreateTaskPushNotificationConfigRequest.FromString(
        sent("create_push_config", {**ids, "url": "https://hook.example"}).request.content
    )
    assert (created.parent, created.config_id, created.config.name) == ("tasks/t", "c", PUSH)
    assert created.config.push_notification_config.url == "https://hook.example"


def test_a_message_has_content() -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    call = sent("send_message", {"message": message})
    request = official.SendMessageRequest.FromString(call.request.content)
    assert [part.text for part in request.request.content] == ["hi"]
    assert request.configuration.blocking
    assert call.request.url.endswith("/a2a.v1.A2AService/SendMessage")
    assert call.request.headers["A2A-Version"] == "0.3"


def test_a_cancelled_task() -> None:
    status = official.TaskStatus(state=official.TASK_STATE_CANCELLED)
    body = official.Task(id="t", status=status).SerializeToString()
    task: Task = sent("get_task", {"id": "t"}).parse_response(body)
    assert task.status.state is TaskState.CANCELED
