"""The user, conversation and trace of a request."""

from typing import Any, Self

from pydantic import Field, model_validator

from ._base import CoReasonBaseModel, Id, Timestamp, utc_now

__all__ = ["SessionContext", "TraceContext", "UserContext"]


class UserContext(CoReasonBaseModel):
    """The person or program that sends the request."""

    user_id: Id
    email: str | None = None
    tier: str | None = None
    locale: str | None = None


class TraceContext(CoReasonBaseModel):
    """The position of a request in a distributed trace."""

    trace_id: Id
    span_id: Id
    parent_id: Id | None = None


class SessionContext(CoReasonBaseModel):
    """The conversation of a request; `user_id` may be passed alone or inside `user`."""

    session_id: Id
    user_id: Id
    agent_id: Id | None = None
    user: UserContext | None = None
    trace: TraceContext | None = None
    permissions: list[str] = Field(default_factory=list, fail_fast=True)
    created_at: Timestamp = Field(default_factory=utc_now)

    @model_validator(mode="before")
    @classmethod
    def _user_id_from_user(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "user_id" in values:
            return values
        user = values.get("user")
        user_id = user.get("user_id") if isinstance(user, dict | UserContext) else None
        return values if user_id is None else {**values, "user_id": user_id}

    @model_validator(mode="after")
    def _require_same_user(self) -> Self:
        if self.user is not None and self.user.user_id != self.user_id:
            raise ValueError("user_id and user.user_id must be equal")
        return self
