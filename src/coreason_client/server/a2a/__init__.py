"""Serves an agent over A2A, protocol versions 1.0 and 0.3, from the same log as CAP."""

from ._cards import AgentDescription, Cards
from ._grpc_serving import GrpcServing
from ._operations import Operations
from ._routes import A2ARoutes
from ._settings import A2A, parse_address, reserve, settings_of

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
