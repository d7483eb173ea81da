"""The result of a tool call as text for the model, and the steps of a run as JSON. No I/O.

* Text is sent as it is, any other value as JSON.
* An error is sent as text that begins with "Error: ": the type and the message of the exception,
  without a traceback.
* Long results are cut; a marker says so.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, NamedTuple, get_args

from pydantic_core import PydanticSerializationError, to_json

from ..._context import error_type
from .. import errors as llm_errors
from .._json import clean_text
from .._response_format import parse_answer
from ..errors import LLMError, LLMResponseError, ToolAbort
from ..types import Delta, Response

_MAX_MESSAGE = 1000
_MARK = re.compile(r"\n\[truncated: the first [0-9]+ of ([0-9]+) characters\]\Z")


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
    """Return text that is cut after `limit` characters, with a marker that has its full length.

    Text that was cut before keeps the length that its marker has.
    """
    if len(text) <= limit:
        return text
    length = str(len(text))
    if (earlier := _MARK.search(text, max(0, len(text) - 100))) is not None:
        length = earlier[1]
        if earlier.start() <= limit:
            return text
    return f"{text[:limit]}\n[truncated: the first {limit} of {length} characters]"


def _valid_unicode(text: str) -> str:
    """Replace halves of surrogate pairs, which cannot be sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


# The steps of a run in a durable agent as JSON: answers of the model and outputs of tools.
#
# The pieces of a streamed answer are stored too: a restarted agent writes them again, and its
# packets are compared with those in the log.

MAX_IMAGE_CHARS = 600_000
"""The images of one call that fit into a step; they are base64."""

MAX_TEXT_CHARS = 170_000
"""The text of one call that fits into a step: JSON needs at most six bytes for a character."""

_MAX_STEP = 1_030_000  # bytes of the text and the images together

_DELTAS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Delta)}
_ERROR_FIELDS = (
    *("provider", "model", "status", "code", "request_id", "retry_after", "attempts"),
    *("body", "partial", "spent"),
)


class StoredTurn(NamedTuple):
    """An answer of the model: its pieces, and the response or the error at their end."""

    deltas: list[Delta]
    response: Response | None
    error: LLMError | None


def dump_turn(
    deltas: Sequence[Delta], response: Response | None, error: LLMError | None = None
) -> dict[str, Any]:
    """Return an answer as JSON; without a response and an error, it was not read to its end."""
    stored: dict[str, Any] = {
        "deltas": [[type(delta).__name__, *astuple(delta)] for delta in deltas]
    }
    if response is not None:
        data = {key: value for key, value in response["data"].items() if key != "parsed"}
        stored["response"] = {**response, "data": data}
    if error is not None:
        fields = {name: getattr(error, name) for name in _ERROR_FIELDS}
        stored["error"] = {
            "type": type(error).__name__,
            "message": str(error),
            **{name: value for name, value in fields.items() if value is not None},
        }
    return stored


def load_turn(stored: dict[str, Any]) -> StoredTurn:
    """Return an answer from the journal; `parsed` is not stored and must be added."""
    deltas = [_DELTAS[kind](*values) for kind, *values in stored["deltas"]]
    response, failure = stored.get("response"), stored.get("error")
    if response is not None:
        return StoredTurn(deltas, response, None)
    if failure is None:
        return StoredTurn(deltas, None, LLMResponseError("the answer was not read to its end"))
    error = getattr(llm_errors, failure["type"], LLMError)(failure["message"])
    vars(error).update({name: failure[name] for name in _ERROR_FIELDS if name in failure})
    return StoredTurn(deltas, None, error)


def with_parsed(response: Response, response_format: Any) -> Response:
    """Add the parsed answer to a response from the journal, as it had it at first."""
    data = response["data"]
    if response_format is None or data["tool_calls"] or data.get("filtered"):
        return response
    data["parsed"] = parse_answer(data["content"] or "", response_format)
    return response


def dump_output(output: ToolOutput, seconds: float) -> dict[str, Any]:
    """Return the output of a tool, and the duration of the call, as JSON."""
    text, images = bounded(output.text, MAX_TEXT_CHARS), list(output.images)
    size = sum(map(len, images))
    if size > MAX_IMAGE_CHARS or (size and size + len(to_json(text)) > _MAX_STEP):
        text, images = f"{text}\n[the images are too large for a durable agent]", []
    return {
        "text": text,
        "is_error": output.is_error,
        "images": images,
        "abort": None if output.abort is None else str(output.abort),
        "seconds": seconds,
    }


def load_output(stored: dict[str, Any]) -> tuple[ToolOutput, float]:
    """Return an output from the journal, and the duration of the call."""
    abort = None if stored["abort"] is None else ToolAbort(stored["abort"])
    output = ToolOutput(stored["text"], stored["is_error"], tuple(stored["images"]), abort)
    return output, stored["seconds"]
