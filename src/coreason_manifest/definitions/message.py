"""Messages and their parts; the `type` of a part selects its model."""

from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias, overload
from uuid import UUID

from pydantic import Field

from ._base import CoReasonBaseModel, Id

__all__ = [
    "BlobPart",
    "ChatMessage",
    "FilePart",
    "MessagePart",
    "ReasoningPart",
    "Role",
    "TextPart",
    "ToolCallPart",
    "ToolCallResponsePart",
    "UriPart",
]


_MISSING: Any = object()


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class TextPart(CoReasonBaseModel):
    """Text."""

    type: Literal["text"] = "text"
    content: str


class BlobPart(CoReasonBaseModel):
    """Binary data in the message, as Base64."""

    type: Literal["blob"] = "blob"
    content: str
    mime_type: str | None = None
    modality: str | None = None


class FilePart(CoReasonBaseModel):
    """A file that the service already stores, by its id."""

    type: Literal["file"] = "file"
    file_id: Id
    mime_type: str | None = None
    modality: str | None = None


class UriPart(CoReasonBaseModel):
    """A resource, by its URI."""

    type: Literal["uri"] = "uri"
    uri: str
    mime_type: str | None = None
    modality: str | None = None


class ToolCallPart(CoReasonBaseModel):
    """A tool call that the assistant requests."""

    type: Literal["tool_call"] = "tool_call"
    name: str
    id: Id | None = None
    arguments: Any = None


class ToolCallResponsePart(CoReasonBaseModel):
    """The result of a tool call."""

    type: Literal["tool_call_response"] = "tool_call_response"
    id: Id | None = None
    response: Any = None


class ReasoningPart(CoReasonBaseModel):
    """Reasoning of the assistant."""

    type: Literal["reasoning"] = "reasoning"
    content: str


MessagePart: TypeAlias = Annotated[
    TextPart | BlobPart | FilePart | UriPart | ToolCallPart | ToolCallResponsePart | ReasoningPart,
    Field(discriminator="type"),
]


class ChatMessage(CoReasonBaseModel):
    """One message of a conversation."""

    role: Role
    parts: list[MessagePart] = Field(fail_fast=True)
    name: str | None = None

    @classmethod
    def user(cls, content: str, name: str | None = None) -> "ChatMessage":
        """Create a user message from text; `name` is the name of the user."""
        return cls(role=Role.USER, parts=[TextPart(content=content)], name=name)

    @classmethod
    def assistant(cls, content: str, name: str | None = None) -> "ChatMessage":
        """Create an assistant message from text; `name` is the name of the assistant."""
        return cls(role=Role.ASSISTANT, parts=[TextPart(content=content)], name=name)

    @overload
    @classmethod
    def tool(
        cls, tool_call_id: str | UUID | None, content: Any, name: str | None = None
    ) -> "ChatMessage": ...

    @overload
    @classmethod
    def tool(
        cls,
        tool_call_id: str | UUID | None = None,
        *,
        content: Any = ...,
        name: str | None = None,
        response: Any = ...,
    ) -> "ChatMessage": ...

    @classmethod
    def tool(
        cls,
        tool_call_id: str | UUID | None = None,
        content: Any = _MISSING,
        name: str | None = None,
        *,
        response: Any = _MISSING,
    ) -> "ChatMessage":
        """Create a message with the result of a tool: the id of the call, then the content.

        `response` is another name for `content`.

        Raises:
            TypeError: the content is missing, or was passed twice.
        """
        if (content is _MISSING) is (response is _MISSING):
            raise TypeError(
                "ChatMessage.tool() needs the content exactly once, after the id of the tool call: "
                "ChatMessage.tool(tool_call_id, content)"
            )
        part = ToolCallResponsePart.model_validate(
            {"id": tool_call_id, "response": response if content is _MISSING else content}
        )
        return cls(role=Role.TOOL, parts=[part], name=name)

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.content for part in self.parts if isinstance(part, TextPart))
