"""A chunk as readable fields of a line, and back without a difference. Pure.

JSON and server-sent events with JSON are written as JSON, because JSON within a text is hard to
read. That is done only if the same bytes come back; everything else is text or base64.
"""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from ._bytes_text import bytes_of, fields_of

__all__ = ["CHUNK_FIELDS", "chunk_fields", "chunk_of"]

CHUNK_FIELDS = frozenset({"chunk", "events", "json", "base64"})
_FIELDS = ("event", "id", "retry", "data", "text")


def chunk_fields(data: bytes) -> dict[str, Any]:
    """Return the fields of a line for the bytes of a chunk."""
    for name, read in (("events", _events), ("json", _json)):
        try:
            fields = {name: read(data.decode())}
            if chunk_of(fields) == data:
                return fields
        except ValueError:
            pass
    return fields_of(data, "chunk")


def chunk_of(fields: Mapping[str, Any]) -> bytes:
    """Return the bytes of a chunk for the fields of its line.

    Raises:
        ValueError: they are not the fields of a chunk.
    """
    if "events" in fields:
        events = fields["events"]
        if not isinstance(events, list):
            raise ValueError("'events' must be a list")
        return "".join(map(_event_text, events)).encode()
    if "json" in fields:
        return _compact(fields["json"]).encode()
    return bytes_of(fields, "chunk")


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _events(text: str) -> list[dict[str, Any]]:
    *events, rest = text.split("\n\n")
    if rest or not events:
        raise ValueError("not complete events")
    return [_event(event) for event in events]


def _event(text: str) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(": ")
        if not colon or name not in _FIELDS or name == "text":
            raise ValueError("not a usual event")
        if name == "data":
            try:
                event["data"] = _json(value)
            except ValueError:
                event["text"] = value
        else:
            event[name] = value
    return event


def _event_text(event: Any) -> str:
    if not isinstance(event, dict) or not event.keys() <= set(_FIELDS):
        raise ValueError(f"an event must have only the fields {', '.join(_FIELDS)}")
    lines = [f"{_line_name(name)}: {_line_value(name, value)}" for name, value in event.items()]
    return "\n".join([*lines, "", ""])


def _line_name(name: str) -> str:
    return "data" if name == "text" else name


def _line_value(name: str, value: Any) -> str:
    if name == "data":
        return _compact(value)
    if not isinstance(value, str):
        raise ValueError(f"{name!r} of an event must be text")
    return value
