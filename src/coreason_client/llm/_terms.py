"""Provider-neutral types shared by the client and the adapters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from .types import Media, Message

__all__ = [
    "Answer",
    "Bill",
    "Call",
    "End",
    "Fault",
    "Faulted",
    "Malformed",
    "Profile",
    "RawCall",
    "Schema",
    "Tokens",
    "is_model",
    "new_call_id",
]

End: TypeAlias = Literal["stop", "length", "tool_calls", "filtered"]
"""The reason why an answer ended."""

Auth: TypeAlias = Literal["bearer", "api-key", "x-api-key", "x-goog-api-key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A provider as data: which wire format it speaks, where, and how it differs.

    To add an OpenAI-compatible provider, add one row of these to the table of profiles.
    """

    name: str
    """Also the prefix of `name/model` that chooses it."""

    prefix: str = ""
    """Model-name prefix, if it differs from `name`."""

    wire: Literal["openai", "anthropic", "gemini", "ollama"] = "openai"

    base_url: str = ""
    """Default base URL; empty when every customer has an address of their own."""

    hosts: tuple[str, ...] = ()
    """Hosts that are known to be it: `api.example` exactly, `.example` for all below, `:11434` for
    a port of any host; a path behind one narrows it down, and the narrowest counts."""

    path: str = "/v1"
    """Path that is added to a base URL without one."""

    auth: Auth = "bearer"

    key_variable: str = ""
    """The environment variable in which its users keep its key."""

    needs_key: bool = True

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    required_choice: Literal["required", "any"] = "required"
    """Value of `tool_choice` that forces a call of some tool."""

    names: bool = True
    """Whether messages may have a `name`."""

    short_ids: bool = False
    """Whether ids of tool calls must be nine letters and digits."""

    schemas: bool = True
    """Whether `response_format` takes a JSON schema, and not only "some JSON object"."""

    stream_usage: bool = True
    """Whether `stream_options` asks for usage at the end of a stream."""

    vendor_names: bool = False
    """Whether its models are named after their vendors, so that `openai/…` is one of its own."""

    own_names: tuple[str, ...] = ()
    """Beginnings of its models' own names that look like its routing prefix (`groq/compound`)."""

    only_vendor_names: bool = False
    """Whether each of its models is named `vendor/model`, so that `prefix/model` is one of them."""

    echoes_reasoning: bool = False
    """Whether an assistant's message goes back with its `reasoning_content`."""

    prices: str | None = None
    """Its id in the price table."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON that an answer must be; without a schema any JSON object.

    `strict` is None when it was left to us: strict where the provider and the schema allow it.
    """

    name: str
    schema: Mapping[str, Any] | None
    strict: bool | None = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request in our own terms, checked.

    Messages and tools are in the form of OpenAI's chat completions: content is text, a list of
    `{"type": "text"}` and `{"type": "image_url"}` parts, or None in an assistant's message that
    has `tool_calls`; a `tool` message has a `tool_call_id` and text. An earlier tool call is
    `{"id", "type": "function", "function": {"name", "arguments": JSON text}}`, with the
    `signature` that it came with, if any. An assistant's message may have its `reasoning`.
    `tool_choice` is "auto", "none", "required", or the name of a tool behind "tool:".
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


@dataclass(slots=True)
class Tokens:
    """Token counts of a provider; None where it sent none.

    `prompt` includes what was read from and written to a cache, `completion` includes reasoning.
    `cache_write_1h` is the part of `cache_write` that is kept for an hour.
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    bill: "Bill | None" = field(default=None, compare=False)


@dataclass(slots=True)
class Bill:
    """What a reply says about its price; empty where it says nothing.

    `model` is the model that answered, `tier` its service tier, and `dollars` the amount that was
    billed. `parts` are runs that are priced one by one, each with its model where that is another;
    together they are all the tokens.
    """

    model: str = ""
    tier: str = ""
    dollars: float | None = None
    parts: Sequence[tuple[str, Tokens]] = ()


@dataclass(slots=True)
class RawCall:
    """A tool call as received: the id may be missing, the arguments are text or an object.

    `signature` must be sent back to the provider with the call.
    """

    id: str | None
    name: str
    arguments: str | dict[str, Any] | None
    signature: str | None = None


def new_call_id() -> str:
    """Return an id for a tool call that came without one."""
    return f"call_{uuid4().hex}"


def is_model(value: Any) -> bool:
    """Return True if a value is a pydantic model class, without importing pydantic."""
    return isinstance(value, type) and hasattr(value, "model_json_schema")


@dataclass(slots=True)
class Answer:
    """The answer of a provider."""

    content: str | None = None
    calls: list[RawCall] = field(default_factory=list)
    end: End = "stop"
    reasoning: str = ""
    tokens: Tokens | None = None
    media: list[Media] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether it brings nothing that a caller could use."""
        return not (self.content or self.calls or self.media)


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as a provider describes it.

    `codes` are all the codes that it gave, the most special first; `status` is the HTTP status
    that the body itself names, `param` the parameter that is at fault. `request_id` counts where
    no header has one.
    """

    message: str
    codes: tuple[str, ...] = ()
    status: int | None = None
    param: str | None = None
    retry_after: float | None = None
    request_id: str | None = None


class Faulted(Exception):
    """A stream delivered an error instead of the rest of the answer."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Malformed(Exception):
    """What was received is not the wire format; `code` is the provider's error code, if any."""

    def __init__(self, sentence: str, code: str | None = None) -> None:
        super().__init__(sentence)
        self.code = code
