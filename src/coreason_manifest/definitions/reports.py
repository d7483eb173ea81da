"""TOOL_CALL, TOOL_RESULT and USAGE events: an agent reports its tool calls and its tokens.

They are plain objects with the keys of a `PresentationEvent`; the models here are their `data`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, StrictBool, StrictStr, ValidationError

from ._base import CoReasonBaseModel
from .presentation import PresentationEvent

__all__ = [
    "TOOL_CALL",
    "TOOL_RESULT",
    "USAGE",
    "Report",
    "ToolCallReport",
    "ToolResultReport",
    "UsageReport",
    "report_of",
]

TOOL_CALL: Final = "TOOL_CALL"
"""The type of the event for a tool call that begins."""
TOOL_RESULT: Final = "TOOL_RESULT"
"""The type of the event for the result of a tool call."""
USAGE: Final = "USAGE"
"""The type of the event with the model, the tokens and the cost."""

_Text = Annotated[StrictStr, Field(min_length=1)]
_Count = Annotated[int, Field(strict=True, ge=0)]
_Number = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class ToolCallReport(CoReasonBaseModel):
    """A tool call that begins.

    `arguments` is usually an object. `turn` is the answer of the model that made the call, counted
    from 1.
    """

    call_id: _Text
    name: _Text
    arguments: Any
    turn: _Count | None = None


class ToolResultReport(CoReasonBaseModel):
    """The result of the tool call with the same `call_id`, and how many seconds the call took."""

    call_id: _Text
    result: Any
    is_error: StrictBool = False
    name: _Text | None = None
    turn: _Count | None = None
    seconds: _Number | None = None


class UsageReport(CoReasonBaseModel):
    """The tokens and the cost of requests to a model; several reports of one stream add up.

    `prompt_tokens` includes `cached_tokens` and `cache_write_tokens`; `completion_tokens` includes
    `reasoning_tokens`. `cost_estimate` is in dollars, None if the price is not known. `turns` is
    the number of answers of the model.
    """

    prompt_tokens: _Count
    completion_tokens: _Count
    total_tokens: _Count | None = None
    cost_estimate: _Number | None = None
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None
    estimated: StrictBool = False
    model: StrictStr | None = None
    finish_reason: StrictStr | None = None
    filtered: StrictBool = False
    turns: _Count | None = None


Report: TypeAlias = ToolCallReport | ToolResultReport | UsageReport
"""What an agent reports about its work."""

_MODELS: dict[object, type[Report]] = {
    TOOL_CALL: ToolCallReport,
    TOOL_RESULT: ToolResultReport,
    USAGE: UsageReport,
}


def report_of(event: PresentationEvent | Mapping[str, Any]) -> Report | None:
    """Return the report in an event, None for any other event.

    An agent may use the names for its own events, so one with other data is not a report.
    """
    kind = event.get("type")
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        return None
    try:
        return model.model_validate(event.get("data"))
    except ValidationError:
        return None
