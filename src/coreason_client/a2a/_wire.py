"""Parsing: JSON bytes become typed objects in one pass of pydantic-core.

The wrappers around an event (the JSON-RPC envelope, the one-of of 1.0) are typed dicts, because
they are only needed while parsing; the event itself becomes an object.

* The shape of an event decides how it is parsed, not the version on the card: some agents wrap one
  event as in 1.0 and send the next one bare, with a `kind`, as in 0.3.
* Lone surrogates and bytes that are not UTF-8 are replaced by U+FFFD.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic_core import from_json
from typing_extensions import TypedDict  # a dependency of pydantic, which requires it before 3.12

from ._dialects import convert_checked
from ._v03._shapes import WRAPPER_KEYS, event_from_v03
from .types import (
    AgentCard,
    Event,
    ListTaskPushNotificationConfigsResponse,
    ListTasksResponse,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
    UnknownEvent,
)

EVENT_KEYS: Final = ("artifactUpdate", "statusUpdate", "task", "message")
# Sets of members that identify an event without a `kind`.
_SHAPES: Final = (
    {"taskId", "artifact"},
    {"taskId", "status"},
    {"messageId", "parts"},
    {"id", "status"},
)
# Escapes in the order of JSON parsing: a surrogate pair, a lone surrogate, any other escape.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)


@with_config(ConfigDict(extra="allow"))
class StreamResponse(TypedDict, total=False):
    """The one-of of 1.0: exactly one of these members is set."""

    artifactUpdate: TaskArtifactUpdateEvent
    statusUpdate: TaskStatusUpdateEvent
    task: Task
    message: Message


_RESULTS: Mapping[str, Any] = {
    "event": StreamResponse,
    "task": Task,
    "tasks": ListTasksResponse,
    "push": TaskPushNotificationConfig,
    "pushes": ListTaskPushNotificationConfigsResponse,
    "card": AgentCard,
    "nothing": object,
}


def _envelope(result: Any) -> Any:
    # `jsonrpc` is not required: nothing depends on it, and some servers omit it.
    fields = {"id": object, "result": result | None, "error": object}
    return with_config(ConfigDict(extra="ignore"))(
        TypedDict("Envelope", fields, total=False)  # type: ignore[operator] # made from a table
    )


def _parser(kind: Any) -> Callable[[bytes], Any]:
    validate = TypeAdapter(kind).validator.validate_json

    # The wire has only the camelCase names; looking up both names takes a third longer.
    def read(data: bytes) -> Any:
        try:
            return validate(data, by_alias=True, by_name=False)
        except ValidationError:
            repaired = _repaired(data)
            if repaired == data:
                raise
            return validate(repaired, by_alias=True, by_name=False)

    return read


def _converter(kind: Any) -> Callable[[Any], Any]:
    validate = TypeAdapter(kind).validator.validate_python
    return lambda value: validate(value, by_alias=True, by_name=False)


class _ParserTable(dict[str, Callable[[Any], Any]]):
    """Parsers by the kind of result, built on first use."""

    def __init__(self, make: Callable[[Any], Callable[[Any], Any]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, kind: str) -> Callable[[Any], Any]:
        parser = self[kind] = self._make(_RESULTS[kind])
        return parser


ENVELOPES = _ParserTable(lambda result: _parser(_envelope(result)))
"""By the kind of result: parse the JSON bytes of a JSON-RPC response into an envelope."""

BARE = _ParserTable(_parser)
"""By the kind of result: parse the JSON bytes of the result itself."""

FROM_PYTHON = _ParserTable(_converter)
"""By the kind of result: convert JSON values in the shape of 1.0 to typed objects."""


def parse_json(data: bytes) -> Any:
    """Return the JSON value in the bytes.

    Raises:
        ValueError: they are not JSON.
    """
    try:
        return from_json(data)
    except ValueError:
        repaired = _repaired(data)
        if repaired == data:
            raise
        return from_json(repaired)


def _repaired(data: bytes) -> bytes:
    """Return the JSON with U+FFFD in place of lone surrogates and invalid UTF-8."""
    text = data.decode("utf-8", "replace").encode()
    return _ESCAPES.sub(lambda found: b"\\ufffd" if found[1] else found[0], text)


def event_of(wrapper: Mapping[str, Any]) -> Event:
    """Return the event in the one-of of 1.0, or in the bare shape of 0.3.

    Anything else becomes an `UnknownEvent`.

    Raises:
        ValidationError, ValueError: its kind is known, but its shape is wrong.
    """
    for key in EVENT_KEYS:
        event: Event | None = wrapper.get(key)
        if event is not None:
            extra = event.__pydantic_extra__
            return _convert_v03(event.dump()) if extra and _kind_of(extra) == key else event
    return bare_event(wrapper) or UnknownEvent.model_validate(wrapper)


def bare_event(value: Mapping[str, Any]) -> Event | None:
    """Return the event in the bare shape of 0.3, None if it does not have that shape.

    Raises:
        ValidationError, ValueError: its kind is known, but its shape is wrong.
    """
    if "kind" in value:
        return None if _kind_of(value) is None else _convert_v03(value)
    return _convert_v03(value) if any(value.keys() >= shape for shape in _SHAPES) else None


def _kind_of(value: Mapping[str, Any]) -> str | None:
    kind = value.get("kind")
    return WRAPPER_KEYS.get(kind) if isinstance(kind, str) else None


def _convert_v03(value: Mapping[str, Any]) -> Event:
    wrapper = FROM_PYTHON["event"](convert_checked(event_from_v03, value))
    event: Event = next(wrapper[key] for key in EVENT_KEYS if wrapper.get(key) is not None)
    return event
