"""The words of the protocol: versions, states and JSON names, and who calls. No I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from coreason_client.a2a.errors import VersionNotSupportedError

from ..observe._spans import HeaderValues

V10: Final = "1.0"
V03: Final = "0.3"
VERSION_HEADER: Final = "A2A-Version"
VERSIONS: Final = (V10, V03)
"""The versions of the protocol that the server knows, the latest first."""


def requested_version(given: str | None, supported: Sequence[str] = VERSIONS) -> str:
    """Return the version that a request names; one that names none uses 0.3.

    Raises:
        VersionNotSupportedError: it names another one.
    """
    version = (given or "").strip() or V03
    # A patch number is not part of a version, but some clients send one.
    short = ".".join(version.split(".")[:2])
    if short not in supported:
        shown = " and ".join(supported)
        raise VersionNotSupportedError(
            f"The server supports version {shown} of the protocol, and the request is for another "
            f"one. A request without {VERSION_HEADER} is one of {V03}."
        )
    return short


# Callers


@dataclass(frozen=True, slots=True)
class Caller:
    """The principal whose tasks these are, and the headers and version of the request."""

    principal: str
    user_id: str
    headers: HeaderValues
    version: str = V10

    @classmethod
    def of(cls, principal: str, tenant: object, headers: HeaderValues, version: str = V10) -> Self:
        """Return the caller with a principal; each tenant of it has its own tasks."""
        owner = f"{principal}\n{tenant}" if isinstance(tenant, str) and tenant else principal
        return cls(owner, principal.partition("/")[2] or principal, headers, version)


# The states of a task

WORKING: Final = "TASK_STATE_WORKING"
FAILED: Final = "TASK_STATE_FAILED"
TERMINAL: Final = frozenset(
    {"TASK_STATE_COMPLETED", FAILED, "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
)
INTERRUPTED: Final = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})
"""The states in which a task waits for the next message of its user."""
STATES: Final = TERMINAL | INTERRUPTED | {WORKING, "TASK_STATE_SUBMITTED"}
NOT_LISTED: Final = ""
"""The state in the record of an answer that is a message: for its client there is no task."""


# The names of the fields in requests of 1.0.
#
# ProtoJSON lets a client write a field in camelCase or by its name in the proto file: `taskId` or
# `task_id`. The official conformance kit uses the second form over JSON-RPC.

_PROTO_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+", re.ASCII)
_FREE: Final = ("metadata", "data")  # fields whose content is not that of the protocol


def json_name(name: str) -> str:
    """Return a name in camelCase if it has the form of a name in the proto file."""
    if _PROTO_NAME.fullmatch(name) is None:
        return name
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def with_json_names(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object whose fields have their JSON names, also in the objects in it.

    If a field is given by both names, the JSON name counts.
    """
    given = [(name, json_name(name), member) for name, member in value.items()]
    by_proto_name = {new: _inner(new, member) for name, new, member in given if name != new}
    by_json_name = {name: _inner(name, member) for name, new, member in given if name == new}
    return by_proto_name | by_json_name


def _inner(name: str, value: Any) -> Any:
    if name in _FREE:
        return value
    if isinstance(value, dict):
        return with_json_names(value)
    if isinstance(value, list):
        return [_inner("", item) for item in value]
    return value
