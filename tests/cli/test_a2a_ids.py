"""The ids of the next message, and the command that continues with a task."""

import pytest

from coreason_client import ArgumentError
from coreason_client.a2a import Part, Role, Task, TaskState, TaskStatus
from coreason_client.cli.a2a._agent import AgentOptions
from coreason_client.cli.a2a._ids import MessageIds, checked_id, next_step, state_name
from coreason_client.cli.exits import Failure

WAITS = {TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED}
AGENT = AgentOptions("https://agent.example")


@pytest.mark.parametrize("state", list(TaskState))
def test_only_a_task_that_waits_gets_the_next_message(state: TaskState) -> None:
    ids = MessageIds("old", "before").after("new", "t", TaskStatus(state=state))
    assert ids == MessageIds("new", "t" if state in WAITS else None)


def test_an_answer_without_ids_keeps_the_conversation() -> None:
    assert MessageIds("c", "t").after(None, None, None) == MessageIds("c")
    assert MessageIds().after(None, None, None) == MessageIds()


def test_the_message_has_the_ids() -> None:
    message = MessageIds("c", "t").message([Part(text="x")])
    assert (message.role, message.context_id, message.task_id) == (Role.USER, "c", "t")
    assert message.text == "x"
    assert MessageIds("c", "t").options() == ["--task", "t", "--context", "c"]
    assert MessageIds().options() == []


def test_options_must_not_be_empty_and_can_be_encoded() -> None:
    for arguments in (("", None), (None, "")):
        with pytest.raises(ArgumentError, match="must not be empty"):
            MessageIds.from_options(*arguments)
    assert MessageIds.from_options("c\udcff", None) == MessageIds("c?")
    assert checked_id("ID", "a\udcff") == "a?"


def test_a_task_gives_its_context_unless_it_is_over() -> None:
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.INPUT_REQUIRED))
    assert MessageIds(None, "t").of_task(task) == MessageIds("c", "t")
    over = task.model_copy(update={"status": TaskStatus(state=TaskState.CANCELED)})
    with pytest.raises(Failure, match=r"task is canceled and .* use --context c without --task"):
        MessageIds(None, "t").of_task(over)
    with pytest.raises(Failure, match=r"^the task is canceled and takes no more messages$"):
        MessageIds(None, "t").of_task(over.model_copy(update={"context_id": None}))


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (None, "the task has not ended; to watch it: coreason a2a task watch {} t"),
        ("TASK_STATE_WORKING", "the task has not ended; to watch it: coreason a2a task watch {} t"),
        ("TASK_STATE_INPUT_REQUIRED", "to answer: coreason a2a stream {} --task t --context c"),
        (
            "TASK_STATE_AUTH_REQUIRED",
            (
                "the task waits until you have signed in; to watch it: coreason a2a task watch {} "
                "t\nto answer: coreason a2a stream {} --task t --context c"
            ),
        ),
        ("TASK_STATE_COMPLETED", None),
        ("TASK_STATE_FAILED", None),
        ("NEW_STATE", "the task has not ended; to watch it: coreason a2a task watch {} t"),
    ],
)
def test_the_next_step(state: str | None, line: str | None) -> None:
    status = None if state is None else TaskStatus.model_validate({"state": state})
    expected = None if line is None else line.replace("{}", AGENT.url)
    assert next_step(AGENT, "stream", MessageIds("c", "t"), "t", status) == expected
    assert next_step(AGENT, "stream", MessageIds("c", "t"), None, status) is None


def test_the_name_of_a_state() -> None:
    assert state_name(TaskStatus(state=TaskState.INPUT_REQUIRED)) == "input-required"
    assert state_name(TaskStatus(state="NEW_STATE")) == "new-state"
    assert state_name(TaskStatus(state=17)) == "17"
