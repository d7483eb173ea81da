"""Tasks as rows of text, and the filter for their states. Pure."""

from coreason_client import ArgumentError
from coreason_client.a2a import Role, Task, TaskState

from .._text import as_local_time, shortened
from ._ids import state_name

__all__ = ["first_words", "parse_state", "task_row"]


def task_row(task: Task, *, local_time: bool) -> tuple[str, str, str, str]:
    """Return the id, the state, the time of the last change and the first words of a task."""
    time = task.status.timestamp or ""
    shown = as_local_time(time) if local_time else time
    return task.id, state_name(task.status), shown, first_words(task)


def first_words(task: Task) -> str:
    """Return the beginning of what was asked; if it is not known, of what the agent says."""
    asked = [message.text for message in task.history if message.role == Role.USER]
    texts = [*asked, task.status.text, task.text]
    return shortened(next((text for text in texts if text.strip()), ""))


def parse_state(text: str) -> TaskState:
    """Return the state with a name such as input-required.

    Raises:
        ArgumentError: there is no such state.
    """
    name = text.strip().upper().replace("-", "_").removeprefix("TASK_STATE_")
    states = {state.name: state for state in TaskState if state is not TaskState.UNSPECIFIED}
    if name not in states:
        known = ", ".join(state.name.lower().replace("_", "-") for state in states.values())
        raise ArgumentError("--state", f"must be one of {known}", text)
    return states[name]
