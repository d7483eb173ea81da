"""Transports: the protocols that the clients require, and those over HTTP, sync and async.

A client accepts any object that implements `Transport` or `AsyncTransport`.
"""

from ._transport_async import (
    AsyncCardTransport,
    AsyncJsonRpcTransport,
    AsyncRestTransport,
    AsyncTransport,
)
from ._transport_sync import CardTransport, JsonRpcTransport, RestTransport, Transport

__all__ = [
    "AsyncCardTransport",
    "AsyncJsonRpcTransport",
    "AsyncRestTransport",
    "AsyncTransport",
    "CardTransport",
    "JsonRpcTransport",
    "RestTransport",
    "Transport",
]
