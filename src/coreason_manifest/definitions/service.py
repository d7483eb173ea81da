"""The envelope of a request, the response to a unary call, and the health check."""

from typing import Any, Literal
from uuid import UUID, uuid4

from pydantic import Field

from ._base import CoReasonBaseModel, Id, Timestamp, utc_now
from .request import AgentRequest
from .session import SessionContext

__all__ = ["HealthCheckResponse", "ServiceRequest", "ServiceResponse"]


class ServiceRequest(CoReasonBaseModel):
    """The body of `POST /assist`; every attempt sends the same `request_id` and body."""

    request_id: UUID = Field(default_factory=uuid4)
    context: SessionContext
    payload: AgentRequest


class ServiceResponse(CoReasonBaseModel):
    """The complete response of an agent that does not stream."""

    request_id: UUID
    created_at: Timestamp = Field(default_factory=utc_now)
    output: dict[str, Any]
    metrics: dict[str, Any] | None = None


class HealthCheckResponse(CoReasonBaseModel):
    """Health status of an agent."""

    status: Literal["ok", "degraded", "maintenance"]
    agent_id: Id
    version: str
    uptime_seconds: float
