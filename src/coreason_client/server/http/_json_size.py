"""The cost of parsing a JSON body, estimated without parsing it. Pure.

The cost does not depend on the bytes alone: four megabytes of text are parsed in milliseconds, four
megabytes of empty lists in seconds, and no other Python code runs meanwhile. Both counts here are
cheap and are made before the body is parsed.
"""

from typing import Any, Final

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core import core_schema as schema

__all__ = ["ValueCount", "count_messages"]

_SLICE: Final = 65_536


class ValueCount:
    """Counts the values of a JSON document that arrives in chunks; the count is an upper bound.

    Each `[`, `{` and `,` outside strings begins at most one value. For invalid JSON the count has
    no meaning; the parser will refuse it.
    """

    __slots__ = ("_escape", "_in_string", "count")

    def __init__(self) -> None:
        self.count = 1
        self._in_string = 0
        self._escape = b""

    def feed(self, chunk: bytes | bytearray, limit: int) -> bool:
        """Count the values of the next chunk; return False if there are more than `limit`."""
        for start in range(0, len(chunk), _SLICE):
            self._feed(chunk[start : start + _SLICE])
            if self.count > limit:
                return False
        return True

    def _feed(self, piece: bytes | bytearray) -> None:
        # Without escaped backslashes and quotes, every quote begins or ends a string.
        text = (self._escape + piece).replace(b"\\\\", b"").replace(b'\\"', b"")
        self._escape = b"\\" if text.endswith(b"\\") else b""
        parts = text.split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        self._in_string ^= (len(parts) - 1) & 1
        self.count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")


def count_messages(body: bytes) -> tuple[int, int]:
    """Return the number of messages in a request, and the total number of their parts.

    This costs a tenth of the validation. Invalid values count as 0.
    """
    try:
        found: dict[str, Any] = _SHAPE.validate_json(body)
    except ValidationError:
        return 0, 0
    messages = (found.get("payload") or {}).get("messages") or []
    return len(messages), sum(len((m or {}).get("parts") or ()) for m in messages)


def _or_none(inner: schema.CoreSchema) -> schema.CoreSchema:
    return schema.with_default_schema(inner, default=None, on_error="default")


def _object(**fields: schema.CoreSchema) -> schema.CoreSchema:
    """Return the schema of an object of which only these fields are read."""
    named = {name: schema.typed_dict_field(field, required=False) for name, field in fields.items()}
    return _or_none(schema.typed_dict_schema(named))


def _list(item: schema.CoreSchema) -> schema.CoreSchema:
    return _or_none(schema.list_schema(item))


_SHAPE = SchemaValidator(
    schema.typed_dict_schema(
        {
            "payload": schema.typed_dict_field(
                _object(messages=_list(_object(parts=_list(_object())))), required=False
            )
        }
    )
)
