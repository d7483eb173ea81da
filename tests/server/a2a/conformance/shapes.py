"""The shape of the objects of 1.0: the proto file of the specification decides.

The official messages refuse unknown fields, wrong types and unknown enum names. What they cannot
know is checked by hand: required fields, camelCase, the form of times.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from a2a.types import a2a_pb2
from google.protobuf import json_format  # type: ignore[import-untyped]

from .driver import JSON

KINDS = {"text", "raw", "url", "data"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
FREE = {"metadata", "data"}
"""Fields whose content is not that of the protocol."""


def check(name: str, value: JSON) -> None:
    """Check an object of the specification, with everything in it."""
    json_format.ParseDict(value, getattr(a2a_pb2, name)())
    assert [
        key for key in keys(value) if not re.fullmatch(r"[a-z]+([A-Z0-9][a-z0-9]*)*", key)
    ] == []
    CHECKS[name](value)


def canonical(name: str, value: JSON) -> JSON:
    """Return an object in the form that is the same for all bindings."""
    message = json_format.ParseDict(value, getattr(a2a_pb2, name)())
    found: JSON = json_format.MessageToDict(message)
    return found


def keys(value: Any) -> Iterator[str]:
    """Return the names of all fields of an object and the objects in it."""
    if isinstance(value, dict):
        yield from value
        for key, member in value.items():
            if key not in FREE:
                yield from keys(member)
    elif isinstance(value, list):
        for member in value:
            yield from keys(member)


def _task(task: JSON) -> None:
    assert task["id"]
    assert task["contextId"]
    _status(task["status"])
    for artifact in task.get("artifacts", []):
        _artifact(artifact)
    for message in task.get("history", []):
        _message(message)


def _status(status: JSON) -> None:
    assert status["state"].startswith("TASK_STATE_")
    assert status["state"] != "TASK_STATE_UNSPECIFIED"
    assert TIME.fullmatch(status["timestamp"])
    if "message" in status:
        _message(status["message"])


def _message(message: JSON) -> None:
    assert message["messageId"]
    assert message["role"] in ("ROLE_USER", "ROLE_AGENT")
    _parts(message["parts"])


def _artifact(artifact: JSON) -> None:
    assert artifact["artifactId"]
    _parts(artifact["parts"])


def _parts(parts: list[JSON]) -> None:
    assert parts
    for part in parts:
        assert len(KINDS & part.keys()) == 1


def _event(event: JSON) -> None:
    [(kind, value)] = event.items()
    if kind in ("task", "message"):
        {"task": _task, "message": _message}[kind](value)
        return
    assert value["taskId"]
    assert value["contextId"]
    if kind == "statusUpdate":
        _status(value["status"])
    else:
        _artifact(value["artifact"])


def _list(page: JSON) -> None:
    assert isinstance(page["nextPageToken"], str)
    assert isinstance(page["pageSize"], int)
    assert isinstance(page["totalSize"], int)
    for task in page["tasks"]:
        _task(task)


CHECKS: dict[str, Callable[[JSON], None]] = {
    "Task": _task,
    "Message": _message,
    "StreamResponse": _event,
    "SendMessageResponse": _event,
    "ListTasksResponse": _list,
}
