"""The protobuf messages, methods and metadata of A2A over gRPC, in 1.0 and 0.3, for both sides.

The messages are in our own descriptor pool.

Why our own pool: the default pool of protobuf accepts a full name only once per process, and
a2a-sdk registers the same names there. With our own pool both libraries work in one process.

Why committed descriptors instead of the `_pb2` code of protoc: that code always uses the default
pool, and it requires a protobuf library at least as new as the compiler. Descriptors have neither
restriction, and no compiler is needed to install the package. `make proto` generates them from the
`.proto` files, and a test fails if they are out of date.
"""

import math
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from google.protobuf import (  # type: ignore[import-untyped]
    any_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ._descriptors import FILES

MessageType: TypeAlias = Any
"""A class of protobuf messages; it is made at run time, so type checkers do not know its fields."""

_WELL_KNOWN = (any_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2)


@cache
def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for module in _WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for text in FILES.values():
        pool.AddSerializedFile(b64decode(text))
    return pool


@cache
def message_type(name: str) -> MessageType:
    """Return the class of a message by its full name, such as `lf.a2a.v1.Task`.

    Raises:
        KeyError: there is no such message.
    """
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))


def method_descriptors(service: str) -> list[Any]:
    """Return the descriptors of the methods of a service, such as `lf.a2a.v1.A2AService`.

    Raises:
        KeyError: there is no such service.
    """
    return list(_pool().FindServiceByName(service).methods)


# The methods of the two gRPC services, by the names of our operations

SERVICES: Mapping[str, str] = {"1.0": "lf.a2a.v1.A2AService", "0.3": "a2a.v1.A2AService"}
"""The full name of the service by protocol version."""

_OPERATIONS: Mapping[str, str] = {
    "SendMessage": "send_message",
    "SendStreamingMessage": "send_message_stream",
    "GetTask": "get_task",
    "ListTasks": "list_tasks",
    "CancelTask": "cancel_task",
    "SubscribeToTask": "resubscribe",
    "CreateTaskPushNotificationConfig": "create_push_config",
    "GetTaskPushNotificationConfig": "get_push_config",
    "ListTaskPushNotificationConfigs": "list_push_configs",
    "DeleteTaskPushNotificationConfig": "delete_push_config",
    "GetExtendedAgentCard": "get_extended_card",
    # The names of 0.3.
    "TaskSubscription": "resubscribe",
    "ListTaskPushNotificationConfig": "list_push_configs",
    "GetAgentCard": "get_extended_card",
}


@dataclass(frozen=True, slots=True)
class GrpcMethod:
    """One method of a service.

    Attributes:
        operation: the name of the operation, such as `get_task`.
        path: the path of the call, such as `/lf.a2a.v1.A2AService/GetTask`.
        request, response: the full names of the messages.
        streams: whether the response is a stream of messages.
    """

    operation: str
    path: str
    request: str
    response: str
    streams: bool


@cache
def methods_of(version: str) -> Mapping[str, GrpcMethod]:
    """Return the methods of a protocol version, "1.0" or "0.3", by the name of the operation.

    Raises:
        KeyError: there is no such version.
    """
    service = SERVICES[version]
    found = (
        GrpcMethod(
            operation=_OPERATIONS[method.name],
            path=f"/{service}/{method.name}",
            request=method.input_type.full_name,
            response=method.output_type.full_name,
            streams=method.server_streaming,
        )
        for method in method_descriptors(service)
    )
    return {method.operation: method for method in found}


# Conversion between JSON objects and protobuf messages, as ProtoJSON defines it.
#
# * Members that a message does not define are left out, and so are names of enum values that it
#   does not define: protobuf cannot carry them.
# * A field with its default value is left out of the JSON object, unless the message records that
#   it was set. So an empty text of a part stays, and an empty `nextPageToken` is left out.
# * Numbers in `metadata`, `data` and `params` are doubles. A whole number stays a whole number up
#   to 2**53; beyond that, digits are lost.
# * Lone surrogates are replaced by U+FFFD, because protobuf text is UTF-8.

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


# Metadata: the headers of an A2A call in gRPC, in both directions.
#
# The service parameters are `a2a-version` and `a2a-extensions`; a credential is in `authorization`
# or in the key that the card names. Keys are in lower case. Headers that describe an HTTP message
# are not sent, because gRPC has its own.

_KEY = re.compile(r"[0-9a-z_.-]+")
_VALUE = re.compile(r"[ -~]*")
_OF_HTTP = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "te",
        "transfer-encoding",
        "user-agent",
    }
)


def metadata_from_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the metadata for the headers of a request.

    Raises:
        ValueError: gRPC cannot send a header; the message omits its value, which may be a secret.
    """
    found = tuple(
        (name.lower(), value) for name, value in headers.items() if name.lower() not in _OF_HTTP
    )
    for key, value in found:
        if not _KEY.fullmatch(key) or key.startswith("grpc-") or key.endswith("-bin"):
            raise ValueError(f"gRPC cannot send a header with the name {key!r}")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"gRPC cannot send the header {key!r}: its value is not ASCII text")
    return found


def extensions_in(metadata: Iterable[tuple[str, str | bytes]]) -> list[str]:
    """Return the URIs of the extensions that a request activates, each once."""
    keys = ("a2a-extensions", "x-a2a-extensions")  # the second is that of 0.3
    pairs = list(metadata)
    values = [value for key in keys for value in _values(key, pairs)]
    uris = [uri.strip() for value in values for uri in value.split(",")]
    return list(dict.fromkeys(uri for uri in uris if uri))


def _values(key: str, metadata: Iterable[tuple[str, str | bytes]]) -> list[str]:
    return [
        value.strip() for name, value in metadata if name.lower() == key and isinstance(value, str)
    ]
