"""Agents that do not stream: the call that begins, the delays, and when a task has stopped."""

from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from coreason_client._retry import Backoff
from coreason_client.a2a import (
    AgentCard,
    Message,
    Role,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from coreason_client.a2a import _client_base as polling
from coreason_client.a2a._card import read_card
from coreason_client.a2a._client_base import (
    has_stopped,
    poll_delays,
    waits_for_user,
)
from coreason_client.a2a._transport_base import can_stream, stream_operation

MESSAGE = {"message": {"messageId": "m"}}


def card(**capabilities: Any) -> AgentCard:
    return read_card({"name": "x", "capabilities": capabilities})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, True),  # no card: nothing says that it cannot
        (card(), True),
        (card(streaming=True), True),
        (card(streaming=False), False),
    ],
)
def test_an_agent_streams_unless_its_card_denies_it(
    found: AgentCard | None, expected: bool
) -> None:
    assert can_stream(found) is expected


@pytest.mark.parametrize(
    ("name", "params", "streams", "expected"),
    [
        ("send_message_stream", MESSAGE, True, ("send_message_stream", MESSAGE)),
        ("resubscribe", {"id": "t"}, True, ("resubscribe", {"id": "t"})),
        ("resubscribe", {"id": "t"}, False, ("get_task", {"id": "t"})),
        (
            "send_message_stream",
            MESSAGE,
            False,
            ("send_message", {**MESSAGE, "configuration": {"returnImmediately": True}}),
        ),
        (
            "send_message_stream",
            {**MESSAGE, "configuration": {"historyLength": 3}},
            False,
            (
                "send_message",
                {**MESSAGE, "configuration": {"returnImmediately": True, "historyLength": 3}},
            ),
        ),
        (
            "send_message_stream",
            {**MESSAGE, "configuration": {"returnImmediately": False}},  # the caller's choice
            False,
            ("send_message", {**MESSAGE, "configuration": {"returnImmediately": False}}),
        ),
        (
            "send_message_stream",
            {**MESSAGE, "configuration": None},
            False,
            ("send_message", {**MESSAGE, "configuration": {"returnImmediately": True}}),
        ),
    ],
)
def test_the_call_that_begins_a_stream(
    name: str, params: dict[str, Any], streams: bool, expected: tuple[str, dict[str, Any]]
) -> None:
    before = repr(params)
    assert stream_operation(name, params, streams=streams) == expected
    assert repr(params) == before


STOPPED = {
    *(TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED),
    *(TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED),
}


@pytest.mark.parametrize("state", list(TaskState))
def test_a_task_has_stopped_if_it_is_over_or_waits_for_the_user(state: TaskState) -> None:
    assert has_stopped(Task(id="t", status=TaskStatus(state=state))) is (state in STOPPED)


@pytest.mark.parametrize("state", list(TaskState))
def test_an_event_says_that_its_task_waits_for_the_user(state: TaskState) -> None:
    status = TaskStatus(state=state)
    waits = state in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)
    assert waits_for_user(Task(id="t", status=status)) is waits
    assert waits_for_user(TaskStatusUpdateEvent(task_id="t", status=status)) is waits
    assert not waits_for_user(Message(role=Role.AGENT, parts=[]))


def test_a_task_that_is_not_known_has_not_stopped() -> None:
    assert not has_stopped(None)


def test_the_delays_grow_up_to_the_limit_of_the_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "Backoff", lambda: Backoff(1.0, 8.0))
    monkeypatch.setattr(polling, "random", SimpleNamespace(random=lambda: 0.5))
    delays = list(islice(poll_delays(), 8))
    assert delays == [Backoff(1.0, 8.0).delay(number, lambda: 0.5) for number in range(1, 9)]
    assert delays[0] < delays[1] < delays[2]
    assert delays[-1] == delays[-2]
