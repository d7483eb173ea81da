"""The request of a client to an agent."""

from typing import Any, Self
from uuid import UUID, uuid4

from pydantic import Field, model_validator

from ._base import CoReasonBaseModel, Id, Timestamp, utc_now
from .message import ChatMessage
from .presentation import PresentationEventType

__all__ = ["AgentRequest", "ClientCapabilities"]


class ClientCapabilities(CoReasonBaseModel):
    """The content that the client can show."""

    supported_events: list[PresentationEventType | str] = Field(
        default_factory=list, fail_fast=True
    )
    prefers_markdown: bool = True
    image_resolution: str | None = None


class AgentRequest(CoReasonBaseModel):
    """The request itself: messages, or a free-form payload, or both.

    A request without a parent and a root is its own root; a request with a parent needs a root.
    """

    request_id: UUID = Field(default_factory=uuid4)
    session_id: Id | None = None
    root_request_id: UUID | None = None
    parent_request_id: UUID | None = None
    timestamp: Timestamp = Field(default_factory=utc_now)
    messages: list[ChatMessage] | None = Field(None, fail_fast=True)
    payload: dict[str, Any] | None = None
    capabilities: ClientCapabilities | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_and_set_root(self) -> Self:
        if self.messages is None and self.payload is None:
            raise ValueError("messages, payload or both are required")
        if self.root_request_id is None:
            if self.parent_request_id is not None:
                raise ValueError("a request with a parent_request_id needs a root_request_id")
            # The model is frozen, but at this point it is still being created.
            object.__setattr__(self, "root_request_id", self.request_id)
        return self
