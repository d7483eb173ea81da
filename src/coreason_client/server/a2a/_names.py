"""The names of the fields in requests of 1.0. No I/O.

ProtoJSON lets a client write a field in camelCase or by its name in the proto file: `taskId` or
`task_id`. The official conformance kit uses the second form over JSON-RPC.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["json_name", "with_json_names"]

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
