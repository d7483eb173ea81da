"""The result of a tool call as text for the model. No I/O.

* Text is sent as it is, any other value as JSON.
* An error is sent as text that begins with "Error: ": the type and the message of the exception,
  without a traceback.
* Long results are cut; a marker says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from ..._trace import error_type
from .._provider_text import clean_text
from ..errors import ToolAbort

__all__ = [
    "ToolOutput",
    "bounded",
    "error_output",
    "failure_output",
    "output_of",
]

_MAX_MESSAGE = 1000


@dataclass(slots=True)
class ToolOutput:
    """The result of a tool call: text, and images as data URLs.

    `abort` is the error with which the tool ends the run, None if it does not. `error_type` is what
    telemetry reports of an error: the class of an exception, or a word if there was none.
    """

    text: str
    is_error: bool = False
    images: Sequence[str] = ()
    abort: ToolAbort | None = None
    error_type: str = field(default="tool_error", compare=False)


def output_of(value: Any) -> ToolOutput:
    """Return the output for a value that a tool returned."""
    if isinstance(value, ToolOutput):
        return value
    if isinstance(value, str):
        return ToolOutput(_valid_unicode(value))
    try:
        return ToolOutput(to_json(value).decode())
    except (PydanticSerializationError, ValueError, RecursionError):
        kind = type(value).__name__
        return error_output(f"the tool returned a {kind}, which is neither text nor JSON")


def error_output(message: str, kind: str = "tool_error") -> ToolOutput:
    """Return the output for a call that failed; `kind` is its `error_type`."""
    return ToolOutput(f"Error: {_valid_unicode(message)}", is_error=True, error_type=kind)


def failure_output(error: BaseException, secrets: Iterable[str] = ()) -> ToolOutput:
    """Return the output for an exception of a tool; `secrets` are removed from its message."""
    if isinstance(error, ToolAbort):
        return replace(error_output(str(error), error_type(error)), abort=error)
    message = str(error)
    for secret in secrets:
        message = message.replace(secret, "***")
    message = clean_text(message, _MAX_MESSAGE)
    kind = type(error).__name__
    return error_output(f"{kind}: {message}" if message else kind, error_type(error))


def bounded(text: str, limit: int) -> str:
    """Return text that is cut after `limit` characters, with a marker."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[truncated: the first {limit} of {len(text)} characters]"


def _valid_unicode(text: str) -> str:
    """Replace halves of surrogate pairs, which cannot be sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
