"""Converts JSON schemas to the form of OpenAI's strict mode, in which they are enforced. Pure.

In strict mode every object forbids other properties and requires all of its own, and only some
keywords are allowed. A schema that cannot be converted is sent unchanged, without strict mode.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["sent_schema", "strict_schema"]

# Providers that accept `strict` and enforce the schema.
_ENFORCING = frozenset({"openai", "azure"})

_KEPT = frozenset(
    {
        "const",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "multipleOf",
        "pattern",
        "title",
        "type",
    }
)
_DROPPED = frozenset({"default", "examples", "required"})  # `required` is generated
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)
_MAX_DEPTH = 10


class _NotStrict(Exception):
    """The schema cannot be enforced."""


def sent_schema(
    schema: Mapping[str, Any], strict: bool | None, provider: str
) -> tuple[Mapping[str, Any], bool]:
    """Return the schema to send and the value of `strict`, which is None if it may be chosen."""
    if strict is not None or provider not in _ENFORCING:
        return schema, bool(strict)
    converted = strict_schema(schema)
    return (schema, False) if converted is None else (converted, True)


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema in strict form, None if that is not possible."""
    if schema.get("type") != "object":  # required by strict mode
        return None
    try:
        return _strict(schema, 0)
    except _NotStrict:
        return None


def _strict(schema: Any, depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not schema or depth > _MAX_DEPTH:
        raise _NotStrict
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # no other keyword is allowed beside it
    strict = {key: value for key, value in schema.items() if key in _KEPT}
    for key, value in schema.items():
        if key not in _KEPT and key not in _DROPPED:
            strict[key] = _keyword(key, value, depth + 1)
    if schema.get("type") == "object":
        if "properties" not in schema:
            raise _NotStrict
        strict["additionalProperties"] = False
        strict["required"] = list(schema["properties"])
    elif not strict.keys() & {"type", "anyOf", "enum", "const"}:
        raise _NotStrict
    return strict


def _keyword(key: str, value: Any, depth: int) -> Any:
    if key in {"properties", "$defs"} and isinstance(value, Mapping):
        return {name: _strict(named, depth) for name, named in value.items()}
    if key == "anyOf" and isinstance(value, list):
        return [_strict(option, depth) for option in value]
    if key == "items":
        return _strict(value, depth)
    closed = key == "additionalProperties" and value is False
    if closed or (key == "format" and isinstance(value, str) and value in _FORMATS):
        return value
    raise _NotStrict
