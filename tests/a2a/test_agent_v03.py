"""An agent of version 0.3 reads and writes the inverse of what a client does."""

from typing import Any

import pytest

from coreason_client.a2a._dialects import OPERATIONS, V03
from coreason_client.server.a2a._v03._conversions import (
    PARAMS_FROM_V03,
    RESULTS_TO_V03,
    event_to_v03,
)

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi."}]}
PUSH = {
    "taskId": "t",
    "id": "c",
    "url": "https://x.example",
    "authentication": {"scheme": "Bearer", "credentials": "secret"},
}
PARAMS: list[tuple[str, dict[str, Any]]] = [
    ("send_message", {"message": MESSAGE, "configuration": {"returnImmediately": True}}),
    (
        "send_message_stream",
        {"message": MESSAGE, "configuration": {"taskPushNotificationConfig": {"url": "u"}}},
    ),
    ("get_task", {"id": "t", "historyLength": 3}),
    ("cancel_task", {"id": "t", "metadata": {"a": 1}}),
    ("resubscribe", {"id": "t"}),
    ("create_push_config", PUSH),
    ("get_push_config", {"taskId": "t", "id": "c"}),
    ("list_push_configs", {"taskId": "t"}),
    ("delete_push_config", {"taskId": "t", "id": "c"}),
    ("get_extended_card", {}),
]


def test_every_operation_of_the_version_is_known() -> None:
    assert {name for name, _ in PARAMS} >= set(V03.methods)
    assert set(PARAMS_FROM_V03) <= set(OPERATIONS)


@pytest.mark.parametrize(("operation", "params"), PARAMS)
def test_an_agent_reads_what_a_client_writes(operation: str, params: dict[str, Any]) -> None:
    sent = V03.encode[operation](params)
    assert PARAMS_FROM_V03.get(operation, lambda value: value)(sent) == params


STATUS = {"state": "TASK_STATE_WORKING", "timestamp": "2026-01-02T03:04:05Z"}
TASK = {
    "id": "t",
    "contextId": "c",
    "status": {**STATUS, "message": {**MESSAGE, "role": "ROLE_AGENT"}},
    "history": [MESSAGE],
    "artifacts": [
        {
            "artifactId": "a",
            "parts": [
                {"text": "x"},
                {"raw": "QQ==", "filename": "a.txt", "mediaType": "text/plain"},
                {"url": "https://x.example/a"},
                {"data": {"a": 1}},
                {"data": [1]},
            ],
        }
    ],
}
UPDATE = {"taskId": "t", "contextId": "c"}
RESULTS: list[tuple[str, dict[str, Any]]] = [
    ("task", TASK),
    ("event", {"task": TASK}),
    ("event", {"message": MESSAGE}),
    ("event", {"artifactUpdate": {**UPDATE, "artifact": TASK["artifacts"][0], "append": True}}),  # type: ignore[index]
    ("push", PUSH),
    ("pushes", {"configs": [PUSH]}),
]


@pytest.mark.parametrize(("kind", "result"), RESULTS)
def test_a_client_reads_what_an_agent_writes(kind: str, result: dict[str, Any]) -> None:
    assert V03.decoded(kind, RESULTS_TO_V03[kind](result)) == result


@pytest.mark.parametrize(
    ("state", "final"),
    [
        ("TASK_STATE_WORKING", False),
        ("TASK_STATE_COMPLETED", True),
        ("TASK_STATE_FAILED", True),
        ("TASK_STATE_INPUT_REQUIRED", True),
        ("TASK_STATE_AUTH_REQUIRED", True),
    ],
)
def test_the_last_status_of_a_stream_is_marked(state: str, final: bool) -> None:
    event = event_to_v03({"statusUpdate": {**UPDATE, "status": {"state": state}}})
    assert event["final"] is final
    assert event["kind"] == "status-update"


def test_an_unknown_event_stays_as_it_is() -> None:
    assert event_to_v03({"later": {}}) == {"later": {}}
