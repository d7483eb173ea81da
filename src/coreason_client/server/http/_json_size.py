"""How much a JSON body would cost to parse, counted without parsing it. Pure.

The cost of a body is not in its bytes: four megabytes of text are parsed in milliseconds, four
megabytes of empty lists in seconds, and Python does nothing else meanwhile. Both counts here cost
little and are taken before the body is parsed.
"""

from typing import Any, Final

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core import core_schema as schema

__all__ = ["ValueCount", "count_messages"]

_SLICE: Final = 65_536


class ValueCount:
    """An upper bound of the values of a JSON document that arrives in chunks.

    Each `[`, `{` and `,` outside strings begins at most one value that is not the first in its
    list or object. What is not JSON is counted somehow, and refused by the parser.
    """

    __slots__ = ("_escape", "_in_string", "count")

    def __init__(self) -> None:
        self.count = 1
        self._in_string = 0
        self._escape = b""

    def feed(self, chunk: bytes, limit: int) -> bool:
        """Count the values of the next chunk; return False as soon as there are too many."""
        for start in range(0, len(chunk), _SLICE):
            self._feed(chunk[start : start + _SLICE])
            if self.count > limit:
                return False
        return True

    def _feed(self, piece: bytes) -> None:
        # Without escaped backslashes and quotes, every quote begins or ends a string.
        text = (self._escape + piece).replace(b"\\\\", b"").replace(b'\\"', b"")
        self._escape = b"\\" if text.endswith(b"\\") else b""
        parts = text.split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        self._in_string ^= (len(parts) - 1) & 1
        self.count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")


def count_messages(body: bytes) -> tuple[int, int]:
    """Return how many messages a request has, and how many parts they have together.

    It costs a tenth of the validation. What is not valid counts as nothing.
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
    """An object of which only these fields are read."""
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
