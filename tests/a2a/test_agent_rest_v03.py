"""The HTTP+JSON form of 0.3 on the side of an agent is the inverse of that of a client."""

from typing import Any

import pytest

from coreason_client.a2a._v03._rest import V03_REST
from coreason_client.server.a2a._v03._conversions import (
    PARAMS_FROM_V03_REST,
    RESULTS_TO_V03_REST,
    send_from_v03,
)

MESSAGE = {
    "messageId": "m",
    "role": "ROLE_USER",
    "parts": [
        {"text": "Hi"},
        {"raw": "QUJD", "filename": "a.txt", "mediaType": "text/plain"},
        {"url": "https://x.example/a", "mediaType": "text/html"},
        {"data": {"a": 1}},
    ],
}
STATUS = {"state": "TASK_STATE_CANCELED", "message": MESSAGE}
ARTIFACT = {"artifactId": "a", "parts": [{"text": "x"}]}
TASK = {
    "id": "t",
    "contextId": "c",
    "status": STATUS,
    "artifacts": [ARTIFACT],
    "history": [MESSAGE],
}
PUSH = {"taskId": "t", "id": "p", "url": "https://x.example", "token": "secret"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("task", TASK),
        ("event", {"task": TASK}),
        ("event", {"message": MESSAGE}),
        ("event", {"artifactUpdate": {"taskId": "t", "artifact": ARTIFACT, "append": True}}),
        ("push", PUSH),
        ("pushes", {"configs": [PUSH], "nextPageToken": ""}),
    ],
)
def test_a_client_reads_what_an_agent_writes(kind: str, value: Any) -> None:
    assert V03_REST.decoded(kind, RESULTS_TO_V03_REST[kind](value)) == value


@pytest.mark.parametrize(
    ("state", "final"), [("TASK_STATE_WORKING", False), ("TASK_STATE_CANCELED", True)]
)
def test_the_last_status_is_marked(state: str, final: bool) -> None:
    update = {"statusUpdate": {"taskId": "t", "status": {"state": state}}}
    shown = RESULTS_TO_V03_REST["event"](update)["statusUpdate"]
    assert shown["final"] is final
    read = V03_REST.decoded("event", {"statusUpdate": shown})["statusUpdate"]
    assert read["status"]["state"] == state


@pytest.mark.parametrize("immediately", [True, False])
def test_an_agent_reads_what_a_client_sends(immediately: bool) -> None:
    push = {"url": "https://x.example", "authentication": {"scheme": "Bearer"}}
    params = {
        "message": MESSAGE,
        "configuration": {
            "returnImmediately": immediately,
            "historyLength": 2,
            "taskPushNotificationConfig": push,
        },
        "metadata": {"a": 1},
    }
    sent = V03_REST.encode["send_message"](params)
    assert PARAMS_FROM_V03_REST["send_message"](sent) == params


@pytest.mark.parametrize(
    ("configuration", "immediately"),
    [(None, False), ({}, False), ({"blocking": True}, False), ({"blocking": False}, True)],
)
def test_a_message_waits_unless_it_says_otherwise(
    configuration: dict[str, Any] | None, immediately: bool
) -> None:
    """As over JSON-RPC."""
    sent: dict[str, Any] = {"request": {"content": []}, "configuration": configuration}
    read = PARAMS_FROM_V03_REST["send_message"](sent)
    assert read["configuration"] == {"returnImmediately": immediately}
    over_rpc = send_from_v03({"message": {}, "configuration": configuration or {}})
    assert over_rpc["configuration"].get("returnImmediately", False) == immediately


def test_an_agent_reads_a_push_configuration() -> None:
    sent = V03_REST.encode["create_push_config"](PUSH)
    assert PARAMS_FROM_V03_REST["create_push_config"]({**sent, "taskId": "t"}) == PUSH


def test_the_proto_names_of_fields_are_accepted_too() -> None:
    free = {"snake_case": {"kept_too": 1}}
    proto = {
        "request": {
            "message_id": "m",
            "context_id": "c",
            "role": "ROLE_USER",
            "content": [{"text": "Hi."}, {"data": {"data": free}}],
            "metadata": free,
        },
        "configuration": {"blocking": True, "history_length": 2},
    }
    json = {
        "request": {
            "messageId": "m",
            "contextId": "c",
            "role": "ROLE_USER",
            "content": [{"text": "Hi."}, {"data": {"data": free}}],
            "metadata": free,
        },
        "configuration": {"blocking": True, "historyLength": 2},
    }
    converted = PARAMS_FROM_V03_REST["send_message"](proto)
    assert converted == PARAMS_FROM_V03_REST["send_message"](json)
    message = converted["message"]
    assert (message["messageId"], message["contextId"]) == ("m", "c")
    assert message["metadata"] == free
    assert message["parts"] == [{"text": "Hi."}, {"data": free}]
    assert converted["configuration"] == {"historyLength": 2, "returnImmediately": False}
