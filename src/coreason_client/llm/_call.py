"""`Call`: a checked request in a provider-neutral form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .types import Message

__all__ = ["Call", "Schema", "is_pydantic_model"]


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON schema of the answer; if `schema` is None, the answer is any JSON object.

    `strict` is None if the caller did not choose: strict where provider and schema allow it.
    """

    name: str
    schema: Mapping[str, Any] | None
    strict: bool | None = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A checked request.

    Messages and tools have the form of OpenAI's chat completions: content is text, a list of
    `{"type": "text"}` and `{"type": "image_url"}` parts, or None in an assistant message with
    `tool_calls`; a `tool` message has a `tool_call_id` and text. A tool call is
    `{"id", "type": "function", "function": {"name", "arguments": JSON text}}`, with the
    `signature` that it was received with, if any. An assistant message may have `reasoning`. The
    last message may be the beginning of the answer: an assistant message with `"prefix": True`.
    `tool_choice` is "auto", "none", "required", or "tool:" followed by the name of a tool.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    temperature: float = 0.7
    max_tokens: int = 2000
    tool_choice: str | None = None
    schema: Schema | None = None
    stop: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False


def is_pydantic_model(value: Any) -> bool:
    """Return True if a value is a pydantic model class, without importing pydantic."""
    return isinstance(value, type) and hasattr(value, "model_json_schema")
