"""Serves an agent over A2A, protocol versions 1.0 and 0.3, from the same log as CAP."""

from ._card import AgentDescription
from ._cards import Cards
from ._grpc_serving import GrpcServing
from ._operations import Operations
from ._ports import parse_address, reserve
from ._routes import A2ARoutes
from ._settings import A2A, settings_of

__all__ = [
    "A2A",
    "A2ARoutes",
    "AgentDescription",
    "Cards",
    "GrpcServing",
    "Operations",
    "parse_address",
    "reserve",
    "settings_of",
]
