"""The types of messages, options, responses and deltas of the AI client."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Generic, Literal, NotRequired, TypeAlias, TypedDict

from typing_extensions import TypeVar

__all__ = [
    "BatchState",
    "BatchStatus",
    "CallOptions",
    "Citation",
    "CitationDelta",
    "Delta",
    "EmbeddingData",
    "EmbeddingResponse",
    "Finish",
    "FinishReason",
    "Measured",
    "Media",
    "Message",
    "ModelInfo",
    "OnBreak",
    "PartialData",
    "PartialResponse",
    "ProviderToolResult",
    "ReasoningDelta",
    "ReasoningEffort",
    "Response",
    "ResponseData",
    "Restarted",
    "TextDelta",
    "TokenCount",
    "ToolCall",
    "ToolCallDelta",
    "Usage",
    "UsageDelta",
]

Message: TypeAlias = dict[str, Any]
"""`role` and `content`, with an optional `name`; see `docs/llm.md` for the other keys."""

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]

OnBreak: TypeAlias = Literal["error", "continue", "restart"]
"""The reaction to a stream that breaks in the middle of the answer."""

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model reasons before it answers."""


class CallOptions(TypedDict, total=False):
    """The optional arguments of a call.

    Attributes:
        tool_choice: "auto", "none", "required", or one function in the format of OpenAI.
        stop: text, or a list of texts, at which the answer ends.
        reasoning_effort: how much the model reasons: "none", "minimal", "low", "medium", "high",
            "xhigh" or "max".
        top_p: the share of the probability from which tokens are sampled, 0 to 1.
        seed: a number for which the same request is sampled in the same way, as far as possible.
        parallel_tool_calls: False for at most one tool call in an answer.
        service_tier: the provider's name of a tier of speed and price, such as "flex".
        fallbacks: other models, tried in order if the first one fails.
        extra: further fields of the request body, for this provider only.
        budget_key: the name whose budget pays for the call, for a budget per key.
        tags: words that a deployment of the router must have to get the call.
        cache: False to send the request although the client has a cache.
        on_break: what to do if a stream breaks in the middle of the answer: "error" (the default)
            raises the error with the received part; "continue" lets the model continue its text,
            where it can; "restart" asks again, and announces it by a `Restarted` delta.
        resume: True lets a stream continue after a lost connection, where the provider can: OpenAI
            and Azure over the Responses API. The provider then stores the answer for about ten
            minutes.
        reask: whether an answer that does not match `response_format` is sent back once, with the
            reason, for the model to correct it; True by default. A stream does so only with
            `on_break="restart"`.
        prompt_cache: True, "5m" or "1h" marks the prompt for the provider's cache, for five minutes
            or an hour; providers that cache by themselves do so in any case.
        raw: True adds the provider's own reply to the response object.
    """

    tool_choice: str | Mapping[str, Any] | None
    stop: str | Sequence[str] | None
    reasoning_effort: ReasoningEffort | None
    top_p: float | None
    seed: int | None
    parallel_tool_calls: bool | None
    service_tier: str | None
    fallbacks: Sequence[str]
    extra: Mapping[str, Any] | None
    budget_key: str | None
    tags: Collection[str]
    cache: bool
    on_break: OnBreak
    resume: bool
    reask: bool
    prompt_cache: bool | Literal["5m", "1h"]
    raw: bool


class ToolCall(TypedDict):
    """A function call that the model requests.

    `signature` is present if the provider needs it back with the call, as Gemini and Claude do.
    `invalid_arguments` is present only in a run: what the model sent instead of a JSON object;
    `arguments` is then empty. `custom` is present, and true, if the call is of a custom tool of
    OpenAI, whose input is text: `arguments` is then `{"input": text}`.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    signature: NotRequired[str]
    custom: NotRequired[bool]
    invalid_arguments: NotRequired[str]


class Media(TypedDict):
    """An image or audio in an answer: base64 `data`, or the `url` to fetch it from.

    `mime_type` is present if the provider sends it. Audio may have a `transcript`, and the `id`
    under which the provider stores it.
    """

    type: Literal["image", "audio", "video", "file"]
    mime_type: NotRequired[str]
    data: NotRequired[str]
    url: NotRequired[str]
    transcript: NotRequired[str]
    id: NotRequired[str]


class Citation(TypedDict, total=False):
    """A source of an answer; a key is absent if the provider does not send its value.

    `content[start:end]` is the part of the answer that the source supports. `cited_text` is text of
    the source. `source_id` is the provider's id of a source, such as that of a file; `document` is
    the index of the source among the documents, or search results, of the request.
    `source_start` and `source_end` (exclusive) say where in the source the text is, in characters,
    pages or blocks: that is the `unit`.
    """

    title: str
    url: str
    source_id: str
    cited_text: str
    start: int
    end: int
    document: int
    unit: Literal["char", "page", "block"]
    source_start: int
    source_end: int


class ProviderToolResult(TypedDict):
    """The use of a tool that the provider ran itself, in the same form for every provider.

    `name` is the provider's name of the tool. `input` are the queries of a search, the URLs to
    fetch, or the code to execute. `sources` are the results of a search, `output` is what the code
    or the tool returned, `error` why it failed. `id` is present if the provider sends one.
    """

    kind: Literal["web_search", "web_fetch", "file_search", "code_execution", "mcp", "other"]
    name: str
    input: list[str]
    id: NotRequired[str]
    sources: NotRequired[list[Citation]]
    output: NotRequired[str]
    error: NotRequired[str]


Parsed = TypeVar("Parsed", default=Any)
"""The type of the parsed answer: the class that was passed as `response_format`."""

Messages: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A conversation, or the text of one message of the user."""

ResponseFormat: TypeAlias = type[Parsed] | UnionType | Mapping[str, Any] | None
"""A type or a JSON schema for the answer; type checkers know the type of `parsed` from a class."""


class Received(TypedDict):
    """The parts of an answer that may be received before its end."""

    content: str | None
    tool_calls: list[ToolCall]
    reasoning: NotRequired[str]
    media: NotRequired[list[Media]]
    citations: NotRequired[list[Citation]]
    tool_results: NotRequired[list[ProviderToolResult]]
    truncated: NotRequired[bool]


class ResponseData(Received, Generic[Parsed]):
    """The content of an answer: text, tool calls, the reason of its end, and what else applies.

    For type checkers `parsed` is always there, so that the answer to a call with `response_format`
    can be used as documented. It is absent without `response_format`, and beside tool calls.
    `truncated` is true if an answer with tool calls was cut off at `max_tokens`: the last call may
    lack arguments. `paused` is true if the provider has interrupted the answer while it uses its
    own tools: send it back as the last message, and the answer goes on. `provider_items` are the
    provider's own parts of the answer, by its name, which it needs back with the message: the items
    of the Responses API, and blocks of tools that the provider runs.
    """

    finish_reason: FinishReason
    filtered: NotRequired[bool]
    paused: NotRequired[bool]
    parsed: Parsed
    provider_items: NotRequired[dict[str, list[dict[str, Any]]]]


class Usage(TypedDict):
    """Tokens and cost; the keys after `cost_estimate` are present only if they apply.

    `prompt_tokens` includes `cached_tokens` and `cache_write_tokens`; `completion_tokens` includes
    `reasoning_tokens`. `cost_estimate` is in dollars, None for a model whose price is not known.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost_estimate: float | None
    cached_tokens: NotRequired[int]
    cache_write_tokens: NotRequired[int]
    reasoning_tokens: NotRequired[int]
    estimated: NotRequired[bool]


class Measured(TypedDict):
    """The part of every response that its usage and time are in."""

    usage: Usage
    seconds: float
    spent: NotRequired[Usage]


class Answered(TypedDict, Generic[Parsed]):
    """The part of a response that the provider's answer determines."""

    status: Literal["success"]
    data: ResponseData[Parsed]
    usage: Usage


class Response(Answered[Parsed], Generic[Parsed]):
    """The answer, in the same form for every provider.

    `model` is the name by which the caller chose the model that answered; it differs from the
    requested one if a fallback answered. `request_id` is the provider's id of the request, None if
    it sent none. `seconds` is the time of the whole call, with retries and waits. `spent` is
    present if other attempts cost something too, such as a stream that broke: the usage of all
    attempts, while `usage` is that of the attempt that led to the answer. `raw` is
    present if the call asked for it: the JSON of the provider's reply, or of the events of a stream
    in a list. `cached` is present, and true, if the answer comes from a `ResponseCache`.
    """

    model: str
    provider: str
    request_id: str | None
    seconds: float
    spent: NotRequired[Usage]
    cached: NotRequired[bool]
    raw: NotRequired[Any]


class EmbeddingData(TypedDict):
    """The vectors of embeddings, in the order of the texts."""

    embeddings: list[list[float]]


class EmbeddingResponse(TypedDict):
    """Embeddings, in the same form for every provider.

    `request_id` is that of the last request, if there were several; `usage` is the sum of all.
    """

    status: Literal["success"]
    data: EmbeddingData
    usage: Usage
    model: str
    provider: str
    request_id: str | None
    seconds: float
    spent: NotRequired[Usage]


class ModelInfo(TypedDict):
    """A model of a provider; the keys after `provider` are present if the provider sends them.

    `id` is the name to pass as `model`, `name` the name for people. `created` is a date in the form
    of ISO 8601. `context_window` and `max_output_tokens` are numbers of tokens.
    """

    id: str
    provider: str
    name: NotRequired[str]
    created: NotRequired[str]
    context_window: NotRequired[int]
    max_output_tokens: NotRequired[int]


class TokenCount(TypedDict):
    """The number of tokens of a prompt; `estimated` is true if the provider has no count."""

    tokens: int
    estimated: bool


BatchState: TypeAlias = Literal["running", "completed", "failed", "cancelled", "expired"]
"""The state of a batch; all but "running" are final."""


class BatchStatus(TypedDict):
    """How far a batch is: its state, and the numbers of its requests.

    Some providers count the requests that succeeded or failed only at the end. `reason` is present
    if the provider rejected the whole batch.
    """

    state: BatchState
    total: int
    succeeded: int
    failed: int
    reason: NotRequired[str]


class PartialData(Received):
    """The received part of an answer; only tool calls with complete arguments.

    `truncated` is true if the answer was cut off at `max_tokens`.
    """


class PartialResponse(TypedDict):
    """The usable part of an answer that is incomplete or cannot be parsed completely."""

    status: Literal["partial"]
    data: PartialData
    usage: Usage


# Not frozen: that would double the cost of creating one, and a stream consists of them.
@dataclass(slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(slots=True)
class ReasoningDelta:
    """A piece of the reasoning before the answer."""

    text: str


@dataclass(slots=True)
class ToolCallDelta:
    """A piece of a tool call: the first of each index has id and name, all add arguments."""

    index: int
    id: str | None
    name: str | None
    arguments: str


@dataclass(slots=True)
class CitationDelta:
    """A source of the answer; its range may be in text that was received before or comes later."""

    citation: Citation


@dataclass(slots=True)
class Restarted:
    """The answer begins again: what was received before it is void.

    `model` is the model that answers now, `reason` the reason why the answer before it broke.
    """

    model: str
    reason: str


@dataclass(slots=True)
class UsageDelta:
    """The usage so far; a later one replaces it."""

    usage: Usage


@dataclass(slots=True)
class Finish:
    """The end of the answer."""

    finish_reason: FinishReason


Delta: TypeAlias = (
    TextDelta | ReasoningDelta | ToolCallDelta | CitationDelta | Restarted | UsageDelta | Finish
)
