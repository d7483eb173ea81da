from typing import Any

import pytest

from coreason_client import A2AClient, ArgumentError, CAPClient
from coreason_client.a2a import Message, Task
from coreason_client.server import Link
from coreason_client.testing import (
    artifact,
    ask,
    fake_a2a,
    fake_agent,
    message,
    reject,
    status,
)


def test_what_an_a2a_client_gets() -> None:
    scripts: list[Any] = [
        [status("Thinking."), ask("Which city?")],
        [ask("Sign in.", auth=True)],
        reject("Not today."),
        message("Just a message."),
        [
            "Here: ",
            artifact("plan", {"day": 1}, "one "),
            artifact("log", "a", last_chunk=False),
            artifact("log", "b", Link("https://x.example/"), append=True),
        ],
    ]
    with fake_a2a(*scripts) as agent, A2AClient.connect(agent.url) as client:
        asks, signs, rejects, said, gives = (client.send_message("Hi") for _ in range(5))
    states = [answer.status.state for answer in (asks, signs, rejects) if isinstance(answer, Task)]
    assert states == [
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_AUTH_REQUIRED",
        "TASK_STATE_REJECTED",
    ]
    assert (asks.text, rejects.text) == ("Which city?", "Not today.")
    assert isinstance(said, Message)
    assert said.text == "Just a message."
    assert isinstance(gives, Task)
    found = {one.name: one for one in gives.artifacts or ()}
    assert found["plan"].parts[0].data == {"day": 1}
    assert [part.text for part in found["log"].parts] == ["ab", None]


def test_a_cap_client_gets_them_too() -> None:
    with fake_agent([ask("Which city?")]) as agent, CAPClient(agent.url, "any") as client:
        assert client.ask("Hi") == "Which city?"


def test_wrong_parts_are_refused_where_they_are_written() -> None:
    with pytest.raises(ArgumentError):
        artifact("plan")
    with pytest.raises(ArgumentError):
        message(7)  # type: ignore[arg-type]
