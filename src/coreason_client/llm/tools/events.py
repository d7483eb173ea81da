"""The events of a run, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

from ..types import Delta, Message, Parsed, Response, Usage

__all__ = [
    "Approval",
    "RunEvent",
    "RunFinished",
    "RunResult",
    "ToolCallFinished",
    "ToolCallStarted",
    "TurnFinished",
]


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model has requested a call, and it begins; `turn` counts from 1."""

    turn: int
    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCallFinished:
    """A call has ended; `result` is the text that the model gets.

    `is_error` is True if the tool failed, does not exist, or was called with invalid arguments.
    """

    turn: int
    id: str
    name: str
    arguments: dict[str, Any]
    result: str
    is_error: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer to the question whether a tool may be called.

    Args:
        approved: True if it may.
        reason: why not, for the model.
        arguments: those with which it is called instead, None for those of the model.
    """

    approved: bool = True
    reason: str = ""
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A turn has ended: the model has answered, and the tools that it called have finished.

    `usage` is that of the turn.
    """

    turn: int
    response: Response
    usage: Usage


@dataclass(frozen=True, slots=True)
class RunResult(Generic[Parsed]):
    """The result of a run.

    Attributes:
        response: the last answer of the model, as the standard response object.
        messages: the complete conversation, from the messages of the caller to the last answer.
            With a new message appended, it can be passed to the next call.
        usage: the sum over all turns; `cost_estimate` is None if one price is not known.
        turns: the number of answers of the model.
        tool_calls: the calls in the order in which the model made them, with their results.
    """

    response: Response[Parsed]
    messages: list[Message]
    usage: Usage
    turns: int
    tool_calls: list[ToolCallFinished]

    @property
    def text(self) -> str:
        """The text of the last answer."""
        return self.response["data"]["content"] or ""

    @property
    def parsed(self) -> Parsed:
        """The last answer in the `response_format` of the run.

        Raises:
            KeyError: the run had no `response_format`, or the model refused to answer.
        """
        parsed: Parsed = self.response["data"]["parsed"]
        return parsed


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run has ended; this is the last event."""

    result: RunResult


RunEvent: TypeAlias = Delta | ToolCallStarted | ToolCallFinished | TurnFinished | RunFinished
"""An event of a run: a delta of the model's answer, or one of the classes above."""
