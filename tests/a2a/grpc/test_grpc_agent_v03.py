"""The gRPC form of 0.3 on the side of an agent: the inverse of what a client sends and reads."""

from contextlib import suppress
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as official
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a._grpc._messages import (
    message_type,
    methods_of,
    parse_message,
    to_json_object,
    to_message,
)
from coreason_client.a2a._v03._rest import V03_GRPC
from coreason_client.server.a2a._v03._conversions import PARAMS_FROM_V03_GRPC, RESULTS_TO_V03_GRPC

from .values import objects_of

IDS = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)
PUSH = "tasks/t/pushNotificationConfigs/c"


def received(operation: str, params: dict[str, Any]) -> Any:
    """Send parameters of 1.0 as a client of 0.3, and return what the agent gets."""
    name = methods_of("0.3")[operation].request
    data = to_message(name, V03_GRPC.encode[operation](params)).SerializeToString()
    return PARAMS_FROM_V03_GRPC[operation](to_json_object(parse_message(message_type(name), data)))


@pytest.mark.parametrize("operation", ["get_task", "cancel_task", "resubscribe"])
@given(task=IDS)
def test_a_task_is_named(operation: str, task: str) -> None:
    assert received(operation, {"id": task}) == {"id": task}


@given(task=IDS, length=st.integers(1, 2**31 - 1))
def test_a_task_with_history(task: str, length: int) -> None:
    params = {"id": task, "historyLength": length}
    assert received("get_task", params) == params


@pytest.mark.parametrize("operation", ["get_push_config", "delete_push_config"])
@given(task=IDS, config=IDS)
def test_a_push_configuration_is_named(operation: str, task: str, config: str) -> None:
    params = {"taskId": task, "id": config}
    assert received(operation, params) == params


@given(task=IDS, size=st.integers(1, 100), token=IDS)
def test_push_configurations_are_listed(task: str, size: int, token: str) -> None:
    params = {"taskId": task, "pageSize": size, "pageToken": token}
    assert received("list_push_configs", params) == params


@given(task=IDS, config=IDS, token=IDS)
def test_a_push_configuration_is_created(task: str, config: str, token: str) -> None:
    params = {"taskId": task, "id": config, "url": "https://hook.example", "token": token}
    assert received("create_push_config", params) == params


@pytest.mark.parametrize(
    ("params", "ids"),
    [
        ({"parent": "tasks/t", "configId": "c"}, ("t", "c")),
        ({"parent": "tasks/t"}, ("t", None)),
        ({"parent": "tasks/t", "config": {"name": PUSH}}, ("t", "c")),
        ({"config": {"name": PUSH}}, ("t", "c")),
        ({"config": {"name": "tasks/t/pushNotificationConfigs/"}}, ("t", None)),
    ],
)
def test_clients_name_a_new_configuration_in_different_places(
    params: dict[str, Any], ids: tuple[str, str | None]
) -> None:
    found = PARAMS_FROM_V03_GRPC["create_push_config"](params)
    assert (found.get("taskId"), found.get("id")) == ids


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("get_task", {}),
        ("get_task", {"name": "t"}),
        ("cancel_task", {"name": "tasks/"}),
        ("resubscribe", {"name": "tasks/t/more"}),
        ("get_push_config", {"name": "tasks/t"}),
        ("list_push_configs", {"parent": ""}),
        ("create_push_config", {"config": {"name": "tasks/t"}}),
    ],
)
def test_a_wrong_name_is_an_error(operation: str, params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"(name|parent) must be tasks/\{id\}"):
        PARAMS_FROM_V03_GRPC[operation](params)


@pytest.mark.parametrize(("blocking", "immediately"), [(True, False), (False, True)])
def test_a_message_blocks_only_if_the_client_asks_for_it(blocking: bool, immediately: bool) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    sent = {"message": message, "configuration": {"returnImmediately": immediately}}
    request = official.SendMessageRequest.FromString(
        to_message(
            "a2a.v1.SendMessageRequest", V03_GRPC.encode["send_message"](sent)
        ).SerializeToString()
    )
    assert request.configuration.blocking is blocking
    found = received("send_message", sent)
    assert found["message"] == message
    assert found["configuration"]["returnImmediately"] is immediately


@pytest.mark.parametrize("operation", sorted(PARAMS_FROM_V03_GRPC))
@given(data=st.data())
def test_any_request_is_converted_or_refused(operation: str, data: st.DataObject) -> None:
    params = data.draw(objects_of(methods_of("0.3")[operation].request))
    with suppress(ValueError):
        assert isinstance(PARAMS_FROM_V03_GRPC[operation](params), dict)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("task", "lf.a2a.v1.Task"),
        ("push", "lf.a2a.v1.TaskPushNotificationConfig"),
        ("card", "lf.a2a.v1.AgentCard"),
    ],
)
@given(data=st.data())
def test_any_result_can_be_sent(kind: str, message: str, data: st.DataObject) -> None:
    targets = {
        "task": "a2a.v1.Task",
        "push": "a2a.v1.TaskPushNotificationConfig",
        "card": "a2a.v1.AgentCard",
    }
    value = data.draw(objects_of(message))
    to_message(targets[kind], RESULTS_TO_V03_GRPC[kind](value))


def test_the_requirements_of_a_card_have_their_older_name() -> None:
    required = [{"schemes": {"bearer": {"list": ["read"]}}}]
    skill = {"id": "s", "securityRequirements": required}
    card = {"name": "x", "security": [{"bearer": ["read"]}], "securityRequirements": required}
    sent = to_message("a2a.v1.AgentCard", RESULTS_TO_V03_GRPC["card"]({**card, "skills": [skill]}))
    found = official.AgentCard.FromString(sent.SerializeToString())
    for holder in (found, found.skills[0]):
        assert list(holder.security[0].schemes["bearer"].list) == ["read"]
    read = V03_GRPC.decode["card"](to_json_object(sent))
    assert read["securityRequirements"] == required
