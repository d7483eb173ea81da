"""A request that a fake model received."""

from dataclasses import dataclass, field
from typing import Any

from .._hidden import HiddenHeaders

__all__ = ["ModelRequest"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request for an answer, as the fake model has read it.

    Attributes:
        wire: "chat", "responses", "anthropic", "gemini", "ollama" or "bedrock".
        model: the name of the model.
        stream: True if the answer is to be streamed.
        messages: the conversation, on every wire in the form of chat completions: `role` and
            `content`, `tool_calls` of the assistant, `tool_call_id` of a result. The content is
            text; if it has other parts, it is the list that was sent.
        tools: `name`, `description` and `parameters` of each tool.
        path: the path of the request.
        headers: the headers by name in lower case; the representation has no credentials.
        json: the body that was sent.
    """

    wire: str
    model: str
    stream: bool
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    path: str
    headers: HiddenHeaders
    json: dict[str, Any] = field(repr=False)

    @property
    def text(self) -> str:
        """The text of the last user message, empty if there is none."""
        for message in reversed(self.messages):
            if message["role"] == "user":
                return _text(message["content"])
        return ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
