"""What goes into the AI client and what comes out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

__all__ = [
    "CallOptions",
    "Delta",
    "Finish",
    "FinishReason",
    "Media",
    "Message",
    "PartialData",
    "PartialResponse",
    "ReasoningDelta",
    "Response",
    "ResponseData",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "Usage",
    "UsageDelta",
]

Message: TypeAlias = dict[str, Any]
"""`role` and `content`, with an optional `name`; see the page on the AI client for the rest."""

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]


class CallOptions(TypedDict, total=False):
    """What a call may be given beyond the document's arguments."""

    tool_choice: str | Mapping[str, Any] | None
    response_format: Any
    stop: str | Sequence[str] | None
    fallbacks: Sequence[str]
    extra: Mapping[str, Any] | None


class ToolCall(TypedDict):
    """A function that the model wants to be called.

    `signature` is there when the provider wants it back with the call, as Gemini and Claude do.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    signature: NotRequired[str]


class Media(TypedDict):
    """An image or a sound in an answer: base64 `data`, or the `url` where it can be fetched.

    `mime_type` is there when the provider names it. Audio may have a `transcript`, and the `id`
    under which the provider keeps it.
    """

    type: Literal["image", "audio", "video", "file"]
    mime_type: NotRequired[str]
    data: NotRequired[str]
    url: NotRequired[str]
    transcript: NotRequired[str]
    id: NotRequired[str]


class ResponseData(TypedDict):
    """What the model answered; the keys after `finish_reason` are there only when they apply.

    `truncated` is true when an answer with tool calls was cut off at `max_tokens`: the last call
    may lack arguments.
    """

    content: str | None
    tool_calls: list[ToolCall]
    finish_reason: FinishReason
    reasoning: NotRequired[str]
    media: NotRequired[list[Media]]
    filtered: NotRequired[bool]
    truncated: NotRequired[bool]
    parsed: NotRequired[Any]


class Usage(TypedDict):
    """Tokens and dollars; the keys after `cost_estimate` are there only when they apply.

    `cached_tokens` and `cache_write_tokens` are part of the prompt, `reasoning_tokens` of the
    completion. `cost_estimate` is None for a model whose price is not known.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost_estimate: float | None
    cached_tokens: NotRequired[int]
    cache_write_tokens: NotRequired[int]
    reasoning_tokens: NotRequired[int]
    estimated: NotRequired[bool]


class Response(TypedDict):
    """The answer, in the same shape from every provider.

    `model` is there when a fallback answered, and names it.
    """

    status: Literal["success"]
    data: ResponseData
    usage: Usage
    model: NotRequired[str]


class PartialData(TypedDict):
    """The part of an answer that was received; tool calls only when their arguments are whole.

    `truncated` is true when the answer was cut off at `max_tokens`.
    """

    content: str | None
    tool_calls: list[ToolCall]
    reasoning: NotRequired[str]
    media: NotRequired[list[Media]]
    truncated: NotRequired[bool]


class PartialResponse(TypedDict):
    """The part of an answer that was received before it broke, or that could be read."""

    status: Literal["partial"]
    data: PartialData
    usage: Usage


# Not frozen: that would double the cost of making one, and a stream is made of them.
@dataclass(slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(slots=True)
class ReasoningDelta:
    """A piece of what the model thought before it answered."""

    text: str


@dataclass(slots=True)
class ToolCallDelta:
    """A piece of a tool call: the first of an index has its id and name, all add arguments."""

    index: int
    id: str | None
    name: str | None
    arguments: str


@dataclass(slots=True)
class UsageDelta:
    """What was used, as far as the provider has told; a later one replaces it."""

    usage: Usage


@dataclass(slots=True)
class Finish:
    """The end of the answer."""

    finish_reason: FinishReason


Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | UsageDelta | Finish
