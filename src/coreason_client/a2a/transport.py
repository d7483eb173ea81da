"""Transports: the protocols that the clients require, and those of the bindings, sync and async.

A client accepts any object that implements `Transport` or `AsyncTransport`.
"""

from ._transport_async import (
    AsyncCardTransport,
    AsyncGrpcTransport,
    AsyncJsonRpcTransport,
    AsyncRestTransport,
    AsyncTransport,
)
from ._transport_sync import (
    CardTransport,
    GrpcTransport,
    JsonRpcTransport,
    RestTransport,
    Transport,
)

__all__ = [
    "AsyncCardTransport",
    "AsyncGrpcTransport",
    "AsyncJsonRpcTransport",
    "AsyncRestTransport",
    "AsyncTransport",
    "CardTransport",
    "GrpcTransport",
    "JsonRpcTransport",
    "RestTransport",
    "Transport",
]
