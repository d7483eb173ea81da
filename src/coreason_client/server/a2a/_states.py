"""The states of a task. No I/O."""

from typing import Final

__all__ = ["FAILED", "INPUT_REQUIRED", "NOT_LISTED", "STATES", "TERMINAL", "WORKING"]

WORKING: Final = "TASK_STATE_WORKING"
INPUT_REQUIRED: Final = "TASK_STATE_INPUT_REQUIRED"
FAILED: Final = "TASK_STATE_FAILED"
TERMINAL: Final = frozenset(
    {"TASK_STATE_COMPLETED", FAILED, "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
)
STATES: Final = TERMINAL | {
    WORKING,
    INPUT_REQUIRED,
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_AUTH_REQUIRED",
}
NOT_LISTED: Final = ""
"""The state in the record of an answer that is a message: for its client there is no task."""
