"""What comes off the wire becomes typed objects: one pass of pydantic-core over the bytes.

The wrappers around an event (the JSON-RPC envelope, the one-of of 1.0) are typed dicts, because
they are read once and thrown away; only the event itself becomes an object.

* The shape of an event decides how it is read, not the version on the card: some agents wrap one
  event as 1.0 does and send the next one bare, with a `kind`, as 0.3 does.
* JSON that is text but for a lone surrogate or a byte that is no UTF-8 is read with U+FFFD there.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic_core import from_json
from typing_extensions import TypedDict  # which pydantic brings, and asks for before Python 3.12

from ._dialects import WRAPPER_KEYS, convert_checked, event_from_v03
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

__all__ = ["BARE", "ENVELOPES", "EVENT_KEYS", "FROM_PYTHON", "bare_event", "event_of", "parse_json"]

EVENT_KEYS: Final = ("artifactUpdate", "statusUpdate", "task", "message")
# Members that together give an event without a kind away.
_SHAPES: Final = (
    {"taskId", "artifact"},
    {"taskId", "status"},
    {"messageId", "parts"},
    {"id", "status"},
)
# Escapes in the order in which JSON reads them: a surrogate pair, one surrogate, any other.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)


@with_config(ConfigDict(extra="allow"))
class StreamResponse(TypedDict, total=False):
    """Exactly one of these."""

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
    # `jsonrpc` is not asked for: nothing depends on it, and some servers leave it out.
    fields = {"id": object, "result": result | None, "error": object}
    return with_config(ConfigDict(extra="ignore"))(
        TypedDict("Envelope", fields, total=False)  # type: ignore[operator] # made from a table
    )


def _reader(kind: Any) -> Callable[[bytes], Any]:
    validate = TypeAdapter(kind).validator.validate_json

    # The wire has the protocol's names only: looking for ours too takes a third longer.
    def read(data: bytes) -> Any:
        try:
            return validate(data, by_alias=True, by_name=False)
        except ValidationError:
            mended = _mended(data)
            if mended == data:
                raise
            return validate(mended, by_alias=True, by_name=False)

    return read


def _taker(kind: Any) -> Callable[[Any], Any]:
    validate = TypeAdapter(kind).validator.validate_python
    return lambda value: validate(value, by_alias=True, by_name=False)


class _Table(dict[str, Callable[[Any], Any]]):
    """Readers by the kind of result, made when they are first used."""

    def __init__(self, make: Callable[[Any], Callable[[Any], Any]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, kind: str) -> Callable[[Any], Any]:
        reader = self[kind] = self._make(_RESULTS[kind])
        return reader


ENVELOPES = _Table(lambda result: _reader(_envelope(result)))
"""By the kind of result: JSON bytes of a JSON-RPC response to an envelope."""

BARE = _Table(_reader)
"""By the kind of result: JSON bytes of the result itself."""

FROM_PYTHON = _Table(_taker)
"""By the kind of result: JSON values in the shape of 1.0 to typed objects."""


def parse_json(data: bytes) -> Any:
    """Return the JSON value in the bytes.

    Raises:
        ValueError: they are not JSON.
    """
    try:
        return from_json(data)
    except ValueError:
        mended = _mended(data)
        if mended == data:
            raise
        return from_json(mended)


def _mended(data: bytes) -> bytes:
    """Return the JSON with U+FFFD in place of what cannot be a character."""
    text = data.decode("utf-8", "replace").encode()
    return _ESCAPES.sub(lambda found: b"\\ufffd" if found[1] else found[0], text)


def event_of(wrapper: Mapping[str, Any]) -> Event:
    """Return the event in the one-of of 1.0, or in the bare shape of 0.3.

    What is neither is kept as it came.

    Raises:
        ValidationError, ValueError: it has a kind that is known, and not its shape.
    """
    for key in EVENT_KEYS:
        event: Event | None = wrapper.get(key)
        if event is not None:
            extra = event.__pydantic_extra__
            return _of_v03(event.dump()) if extra and _kind_of(extra) == key else event
    return bare_event(wrapper) or UnknownEvent.model_validate(wrapper)


def bare_event(value: Mapping[str, Any]) -> Event | None:
    """Return the event in the bare shape of 0.3, None where it has not that shape.

    Raises:
        ValidationError, ValueError: it has a kind that is known, and not its shape.
    """
    if "kind" in value:
        return None if _kind_of(value) is None else _of_v03(value)
    return _of_v03(value) if any(value.keys() >= shape for shape in _SHAPES) else None


def _kind_of(value: Mapping[str, Any]) -> str | None:
    kind = value.get("kind")
    return WRAPPER_KEYS.get(kind) if isinstance(kind, str) else None


def _of_v03(value: Mapping[str, Any]) -> Event:
    wrapper = FROM_PYTHON["event"](convert_checked(event_from_v03, value))
    event: Event = next(wrapper[key] for key in EVENT_KEYS if wrapper.get(key) is not None)
    return event
