"""The protobuf messages of A2A 1.0 and 0.3, in a descriptor pool of our own.

Why a pool of our own: the default pool of protobuf accepts a full name only once per process, and
a2a-sdk registers the same names there. With our own pool both libraries work in one process.

Why committed descriptors instead of the `_pb2` code of protoc: that code always uses the default
pool, and it requires a protobuf library at least as new as the compiler. Descriptors have neither
restriction, and no compiler is needed to install the package. `make proto` generates them from the
`.proto` files, and a test fails if they are out of date.
"""

from base64 import b64decode
from functools import cache
from typing import Any, TypeAlias

from google.protobuf import (  # type: ignore[import-untyped]
    any_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
)

from ._descriptors import FILES

__all__ = ["MessageType", "message_type", "method_descriptors"]

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
