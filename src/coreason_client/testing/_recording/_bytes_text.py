"""Bytes as readable JSON fields, and back without a difference. Pure."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

__all__ = ["bytes_of", "fields_of"]

_EDGE = 3  # the most bytes that a chunk can have of a character that is split


def fields_of(data: bytes, name: str) -> dict[str, str]:
    """Return the fields for bytes: text in the field `name`, or else `base64`.

    If only the characters at the ends are split, their bytes are in `before` and `after`, as hex.
    """
    for first in range(min(_EDGE, len(data)) + 1):
        for last in range(min(_EDGE, len(data) - first) + 1):
            before, after = data[:first], data[len(data) - last :]
            if not (_continues(before) and _begins(after)):
                continue
            try:
                text = data[first : len(data) - last].decode()
            except UnicodeDecodeError:
                continue
            fields = {"before": before.hex(), name: text, "after": after.hex()}
            return {key: value for key, value in fields.items() if value or key == name}
    return {"base64": b64encode(data).decode()}


def _continues(edge: bytes) -> bool:
    return all(0x80 <= byte < 0xC0 for byte in edge)


def _begins(edge: bytes) -> bool:
    return not edge or (0xC2 <= edge[0] <= 0xF4 and _continues(edge[1:]))


def bytes_of(fields: Mapping[str, Any], name: str) -> bytes:
    """Return the bytes for fields.

    Raises:
        ValueError: a field is not what `fields_of` makes.
    """
    if "base64" in fields:
        return b64decode(_text(fields, "base64"), validate=True)
    ends = [bytes.fromhex(_text(fields, key)) for key in ("before", "after")]
    return ends[0] + _text(fields, name).encode() + ends[1]


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key!r} must be text")
    return value
