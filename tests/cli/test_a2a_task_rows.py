"""Tasks as rows: the state, the time and the first words."""

import time
from collections.abc import Iterator

import pytest

from coreason_client import ArgumentError
from coreason_client.a2a import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from coreason_client.cli.a2a._events import first_words, parse_state, task_row


def message(role: Role, text: str) -> Message:
    return Message(role=role, parts=[Part(text=text)])


@pytest.fixture
def _tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_tokyo")
@pytest.mark.parametrize(
    ("timestamp", "local"),
    [
        ("2026-01-31T20:00:01.123456Z", "2026-02-01 05:00:01"),
        ("2026-01-31T20:00:01+01:00", "2026-02-01 04:00:01"),
        ("yesterday", "yesterday"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00+23:59"),
        (None, ""),
    ],
)
def test_the_time_is_local_for_people_and_unchanged_for_programs(
    timestamp: str | None, local: str
) -> None:
    task = Task(id="t", status=TaskStatus(state=TaskState.AUTH_REQUIRED, timestamp=timestamp))
    assert task_row(task, local_time=True) == ("t", "auth-required", local, "")
    assert task_row(task, local_time=False) == ("t", "auth-required", timestamp or "", "")


def test_the_first_words_are_the_question_or_else_the_answer() -> None:
    status = TaskStatus(state=TaskState.INPUT_REQUIRED, message=message(Role.AGENT, "Which?"))
    artifact = Artifact(parts=[Part(text="The  answer")])
    asked = [message(Role.AGENT, "Hi"), message(Role.USER, " \n"), message(Role.USER, "A\n b")]
    assert first_words(Task(id="t", history=asked, status=status)) == "A b"
    assert first_words(Task(id="t", status=status, artifacts=[artifact])) == "Which?"
    assert first_words(Task(id="t", artifacts=[artifact])) == "The answer"
    assert first_words(Task(id="t")) == ""
    long = first_words(Task(id="t", history=[message(Role.USER, "x" * 201)]))
    assert (len(long), long[-2:]) == (200, "x…")


@pytest.mark.parametrize(
    "text", ["input-required", "INPUT_REQUIRED", "TASK_STATE_INPUT_REQUIRED", " Input-Required "]
)
def test_a_state_has_several_spellings(text: str) -> None:
    assert parse_state(text) is TaskState.INPUT_REQUIRED


@pytest.mark.parametrize("text", ["", "unspecified", "done", "6"])
def test_an_unknown_state_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--state must be one of submitted, .*, auth-re"):
        parse_state(text)
