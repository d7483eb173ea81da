"""An agent over AG-UI, the protocol between agents and pages of CopilotKit and others.

This module has its settings. `_routes.py` has the handlers.
"""

from dataclasses import dataclass
from typing import Final

from ...errors import ArgumentError
from .._options import check_api_path, check_max_tool_result

__all__ = ["AGUI", "PROTOCOL"]

PROTOCOL: Final = "ag-ui"
"""The name under which the threads of this protocol are noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AGUI:
    """Settings for `AgentApp(ag_ui=...)`.

    Attributes:
        path: the path to which clients post their runs.
        interrupts: True to end a run with an interrupt for every question of the agent. Clients
            then send nothing but the answer, so a page must have a form for it. By default only a
            question about a tool call is an interrupt, and any other is text that the user answers
            with the next message.
        max_tool_result: the number of characters of a tool's result that clients get; a longer one
            is cut with a mark, and the log has all of it.

    Raises:
        ArgumentError: a value is not valid.
    """

    path: str = "/ag-ui"
    interrupts: bool = False
    max_tool_result: int = 65_536

    def __post_init__(self) -> None:
        check_api_path("path", self.path)
        if not isinstance(self.interrupts, bool):
            raise ArgumentError("interrupts", "must be True or False", self.interrupts)
        check_max_tool_result(self.max_tool_result)
