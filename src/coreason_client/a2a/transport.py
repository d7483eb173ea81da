"""Transports: what a client requires of one, and those over HTTP, sync and async.

A client takes any object that fits `Transport` or `AsyncTransport`.
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
