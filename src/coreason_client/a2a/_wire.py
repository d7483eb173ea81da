"""What comes off the wire becomes typed objects: one pass of pydantic-core over the bytes.

The wrappers around an event (the JSON-RPC envelope, the one-of of 1.0) are typed dicts, because
they are read once and thrown away; only the event itself becomes an object.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, with_config
from pydantic_core import from_json
from typing_extensions import TypedDict  # which pydantic brings, and asks for before Python 3.12

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

__all__ = ["BARE", "ENVELOPES", "EVENT_KEYS", "FROM_PYTHON", "event_of", "parse_json"]

EVENT_KEYS: Final = ("artifactUpdate", "statusUpdate", "task", "message")


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
    return lambda data: validate(data, by_alias=True, by_name=False)


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
    return from_json(data)


def event_of(wrapper: Mapping[str, Any]) -> Event:
    """Return the event in the one-of of 1.0; what is none of the four is kept as it came."""
    for key in EVENT_KEYS:
        event: Event | None = wrapper.get(key)
        if event is not None:
            return event
    return UnknownEvent.model_validate(wrapper)
