"""`Call`: a checked request in a provider-neutral form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .types import Message

__all__ = ["KEEP_INVALID_CALLS", "Call", "PromptCache", "Schema", "is_pydantic_model"]

KEEP_INVALID_CALLS = "_keep_invalid_calls"
"""The internal option of `generate` and `stream` that sets `Call.keep_invalid_calls`."""

PromptCache: TypeAlias = Literal["5m", "1h"]
"""The lifetime of a cached prompt."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON schema of the answer; if `schema` is None, the answer is any JSON object.

    `strict` is None if the caller did not choose: strict where provider and schema allow it.
    """

    name: str
    schema: Mapping[str, Any] | None
    strict: bool | None = False


# Not frozen: that would double the cost of creating one, and every call creates one.
@dataclass(slots=True, kw_only=True)
class Call:
    """A checked request.

    Messages and tools have the form of OpenAI's chat completions: content is text, a list of
    parts, or None in an assistant message with `tool_calls`; a `tool` message has a `tool_call_id`
    and text. Roles are "system", "developer", "user", "assistant" and "tool"; an adapter receives
    "developer" only if the profile has `developer_role`. A tool call is
    `{"id", "type": "function", "function": {"name", "arguments": JSON text}}`, with the
    `signature` that it was received with, if any. An assistant message may have `reasoning`, and
    the `provider_items` of the response that it was built from: a list of opaque objects for each
    provider name, which only that provider gets back. The last message may be the beginning of the
    answer: an assistant message with `"prefix": True`.
    `tool_choice` is "auto", "none", "required", or "tool:" followed by the name of a tool.

    Only user messages have parts. A part is one of these; an adapter rejects those that its wire
    format cannot express in `Adapter.part_problem`:

    * `{"type": "text", "text": …}`
    * `{"type": "image_url", "image_url": {"url": …}}`, with an http(s) or a
      `data:image/…;base64,…` URL, and an optional `detail`.
    * `{"type": "file", "file": {…}}` with exactly one of `file_data` (a `data:MIME;base64,…` URL;
      then there is always a `filename`), `file_url` (an http(s) URL) and `file_id` (the
      provider's own id of an uploaded file); `filename` is optional with the latter two.
    * `{"type": "input_audio", "input_audio": {"data": base64 text, "format": "wav"}}`; the format
      is in lower case.

    `temperature` and `max_tokens` are None if the provider's own default applies. `prompt_cache`
    is the lifetime of cached prompts, None if the caller did not ask for caching. `raw` asks for
    the provider's reply in the response object. `resume` asks for a stream that can be resumed.
    `keep_invalid_calls`: a tool call whose arguments are not a JSON object is part of the answer,
    with `invalid_arguments`, and not an error.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    temperature: float | None = 0.7
    max_tokens: int | None = 2000
    tool_choice: str | None = None
    schema: Schema | None = None
    stop: Sequence[str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    prompt_cache: PromptCache | None = None
    raw: bool = False
    resume: bool = False
    keep_invalid_calls: bool = False


def is_pydantic_model(value: Any) -> bool:
    """Return True if a value is a pydantic model class, without importing pydantic."""
    return isinstance(value, type) and hasattr(value, "model_json_schema")
