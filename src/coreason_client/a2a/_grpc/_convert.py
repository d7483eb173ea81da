"""Conversion between JSON objects and protobuf messages, as ProtoJSON defines it. Pure.

* Members that a message does not define are left out, and so are names of enum values that it does
  not define: protobuf cannot carry them.
* A field with its default value is left out of the JSON object, unless the message records that it
  was set. So an empty text of a part stays, and an empty `nextPageToken` is left out.
* Numbers in `metadata`, `data` and `params` are doubles. A whole number stays a whole number up to
  2**53; beyond that, digits are lost.
* Lone surrogates are replaced by U+FFFD, because protobuf text is UTF-8.
"""

import math
from typing import Any, TypeAlias

from google.protobuf import json_format  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ._messages import MessageType, message_type

__all__ = ["JSON", "parse_message", "to_json_object", "to_message"]

JSON: TypeAlias = dict[str, Any]
_MAX_DEPTH = 100  # the limit of protobuf for nested messages
_MAX_WHOLE = 2**53  # up to here every whole number is a double


def to_message(name: str, value: JSON) -> Any:
    """Return the message with this full name for a JSON object.

    Raises:
        ValueError: a member has the wrong type, or a number is not finite.
    """
    message = message_type(name)()
    try:
        return json_format.ParseDict(
            _sendable(value), message, ignore_unknown_fields=True, max_recursion_depth=_MAX_DEPTH
        )
    except json_format.ParseError as error:
        raise ValueError(f"it cannot be sent as {name}: {error}") from None


def to_json_object(message: Any) -> JSON:
    """Return the JSON object for a message.

    Raises:
        ValueError: it contains a value that JSON does not have, such as infinity.
    """
    try:
        found: JSON = _with_whole_numbers(json_format.MessageToDict(message))
    except json_format.SerializeToJsonError as error:
        raise ValueError(f"it contains a value that JSON does not have ({error})") from None
    return found


def parse_message(kind: MessageType, data: bytes) -> Any:
    """Return the message in these bytes.

    Raises:
        ValueError: the bytes are not such a message.
    """
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ValueError(f"it is not a message of type {kind.DESCRIPTOR.name} ({error})") from None


def _with_whole_numbers(value: Any) -> Any:
    """Return a JSON value with `1` instead of `1.0`; only `Struct` and `Value` have doubles."""
    if isinstance(value, dict):
        return {name: _with_whole_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(member) for member in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_WHOLE:
        return int(value)
    return value


def _sendable(value: Any) -> Any:
    """Return a JSON value without lone surrogates; raises ValueError for NaN and infinity."""
    if isinstance(value, str):
        return value if value.isascii() else _without_surrogates(value)
    if isinstance(value, dict):
        return {_sendable(name): _sendable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"it contains the number {value}, which JSON does not have")
    return value


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
