"""Tasks as rows of text, and the filter for their states. Pure."""

from datetime import datetime

from coreason_client import ArgumentError
from coreason_client.a2a import Role, Task, TaskState

from ._ids import state_name

__all__ = ["first_words", "parse_state", "task_row"]

_MAX_WORDS = 200  # characters


def task_row(task: Task, *, local_time: bool) -> tuple[str, str, str, str]:
    """Return the id, the state, the time of the last change and the first words of a task."""
    time = task.status.timestamp or ""
    return task.id, state_name(task.status), _local(time) if local_time else time, first_words(task)


def _local(timestamp: str) -> str:
    """Return a timestamp in local time, to the second; unchanged if it cannot be parsed."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return timestamp


def first_words(task: Task) -> str:
    """Return the beginning of what was asked; if it is not known, of what the agent says."""
    asked = [message.text for message in task.history if message.role == Role.USER]
    texts = [*asked, task.status.text, task.text]
    found = " ".join(next((text for text in texts if text.strip()), "")[:10_000].split())
    return found if len(found) <= _MAX_WORDS else f"{found[: _MAX_WORDS - 1]}…"


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
