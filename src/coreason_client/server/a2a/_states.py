"""The states of a task. No I/O."""

from typing import Final

__all__ = ["FAILED", "INTERRUPTED", "NOT_LISTED", "STATES", "TERMINAL", "WORKING"]

WORKING: Final = "TASK_STATE_WORKING"
FAILED: Final = "TASK_STATE_FAILED"
TERMINAL: Final = frozenset(
    {"TASK_STATE_COMPLETED", FAILED, "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
)
INTERRUPTED: Final = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})
"""The states in which a task waits for the next message of its user."""
STATES: Final = TERMINAL | INTERRUPTED | {WORKING, "TASK_STATE_SUBMITTED"}
NOT_LISTED: Final = ""
"""The state in the record of an answer that is a message: for its client there is no task."""
